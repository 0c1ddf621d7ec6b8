"""A feature of your own: declare it, compute it, see what it is worth. Run: python examples/04_own_feature.py"""

import podium
from podium.demo.web import make_web
from podium.search import Extractor, Features, build_index, open_index

# A small web made by code: pages with titles and links, queries, and judgements.
web = make_web()
build_index(web.documents, "features.index")
index = open_index("features.index")


def title_length(query):
    """A feature is a function of a query and its candidates that returns one number per candidate."""
    return [len(kept.get("title", "")) for kept in query.stored()]


# Features are declared by name: some of LETOR's, one with other settings, and our function.
features = Features.letor().keep(["BM25(body)", "PageRank"]).add("BM25(title)", "bm25", "title", k1=0.4)
features = features.add("title length", title_length)
hits = index.search("sourdough starter", 3)
print(features.names, Extractor(index, features).values("sourdough starter", hits.documents).shape)
# -> ('BM25(body)', 'PageRank', 'BM25(title)', 'title length') (3, 4)

# The same features of the best 50 pages of many queries, with their grades: training data.
queries = list(web.queries.items())
cascade = podium.Cascade(index, podium.Stage(features=features, n=50))
train = cascade.training_data(dict(queries[:120]), web.qrels)
test = cascade.training_data(dict(queries[120:]), web.qrels)
print(train)
# -> RankingData(5,753 rows, 120 queries, 4 features)

# What is our feature worth? Train with it and without it, and compare query by query.
model = podium.LambdaMART(n_estimators=30, max_leaf_nodes=8)
print(podium.explain.ablation(model, train, test, groups={"title length": ["title length"]}))
# -> ndcg@10 0.7255 (policy standard); drop when left out of training, with 95% interval:
# -> title length  +0.0250  (+0.0094 to +0.0418)

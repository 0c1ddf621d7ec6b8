"""A cascade: search by BM25, re-rank by a model, explain, save. Run: python examples/05_cascade.py"""

import podium
from podium.demo.web import make_web
from podium.search import build_index, open_index

web = make_web()
build_index(web.documents, "cascade.index")
queries = list(web.queries.items())
seen, unseen = dict(queries[:140]), dict(queries[140:])

# The first stage finds 50 pages per query; their 46 LETOR features and the judgements are the training data.
cascade = podium.Cascade(open_index("cascade.index"), podium.Stage(n=50))
data = cascade.training_data(seen, web.qrels)
model = podium.LambdaMART(n_estimators=50, max_leaf_nodes=8, metric="ndcg@10").fit(data)
cascade = cascade.with_model(model)

# Search: each hit knows its rank in the first stage, too.
for hit in cascade.search("sourdough starter from scratch", 3):
    print(hit.first_rank, hit.stored["title"])
# -> 32 We start a sourdough culture
# -> 23 Advice: grey liquid on starter
# -> 11 Sourdough

# Is it better on queries that the model has not seen?
qrels = podium.Qrels.from_dict({name: web.qrels[name] for name in unseen})
for name, ranking in (("BM25", podium.Cascade(cascade.index)), ("cascade", cascade)):
    found = podium.evaluate_run(qrels, ranking.run(unseen, 50), metrics="ndcg@10", policy="standard", missing="zero")
    print(f"{name}: {found['ndcg@10']:.4f}")
# -> BM25: 0.5668
# -> cascade: 0.8018

# One folder holds the index, the features and the model.
cascade.save("web.cascade")
print(podium.load("web.cascade").search("bread", 3).ids == cascade.search("bread", 3).ids)
# -> True

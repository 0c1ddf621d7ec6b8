"""Product search with purchases: behaviour data as features. Run: python examples/07_products.py"""

import numpy as np

import podium
from podium.search import Feature, Features, build_index, open_index

# A shop made by code: products of some kinds and colours, and customers who buy what is well made.
rng = np.random.default_rng(3)
kinds, colours = ["boots", "coat", "lamp", "desk", "kettle", "tent"], ["red", "blue", "green", "black"]
products = [(f"p{n}", rng.choice(kinds), rng.choice(colours), rng.random()) for n in range(600)]
build_index([(id, f"{colour} {kind}", f"{kind} " * rng.integers(1, 9)) for id, kind, colour, _ in products], "shop")

# Queries, relevance (kind, colour and quality), and a table of purchases: of half of the pairs, and with noise.
queries = {f"{colour} {kind}": f"{colour} {kind}" for colour in colours for kind in kinds}
qrels, rows = {name: {} for name in queries}, ["query,document,purchases"]
for name, (id, kind, colour, quality) in ((name, product) for name in queries for product in products):
    if kind in name:
        qrels[name][id] = int(quality > 0.5) + int(quality > 0.8) + int(colour in name)
        rows += [f"{name.upper()},{id},{rng.poisson(20 * quality**2)}"] if rng.random() < 0.5 else []
with open("purchases.csv", "w", encoding="utf-8") as file:
    file.write("\n".join(rows))

# One number per query and product; 0 where there is no row. Its logarithm is a feature of its own.
table = {"file": "purchases.csv", "by": "query_document", "column": "purchases", "missing": 0}
texts = Features([Feature("BM25", "bm25", "whole"), Feature("coverage", "coverage", "title")])
behaviour = texts.add("purchases", "table", **table).add("log purchases", "log1p", of="purchases")
seen, unseen = dict(list(queries.items())[:16]), dict(list(queries.items())[16:])
judged = podium.Qrels.from_dict({name: qrels[name] for name in unseen})
for name, features in (("BM25", None), ("texts", texts), ("texts and purchases", behaviour)):
    cascade = podium.Cascade(open_index("shop"), podium.Stage(features=features or texts, n=200))
    if features is not None:
        model = podium.LambdaMART(n_estimators=40, max_leaf_nodes=6)
        cascade = cascade.with_model(model.fit(cascade.training_data(seen, qrels)))
    print(f"{name}: {podium.evaluate_run(judged, cascade.run(unseen, 200), metrics='ndcg@10')['ndcg@10']:.3f}")
# -> BM25: 0.616
# -> texts: 0.664
# -> texts and purchases: 0.801

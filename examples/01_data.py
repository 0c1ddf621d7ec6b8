"""Data: rows of documents, each with a query, a label and features. Run: python examples/01_data.py"""

import numpy as np

import podium
from podium.demo.letor import demo_splits

# From arrays: one row per document. `qid` says which query a row belongs to, `y` how relevant the document is to it.
X = np.array([[0.9, 3.0], [0.1, 5.0], [0.4, 1.0], [0.7, 0.0]])
data = podium.RankingData.from_arrays(X, y=[2, 0, 0, 1], qid=["a", "a", "b", "b"], feature_names=["bm25", "age"])
print(data)
# -> RankingData(4 rows, 2 queries, 2 features)

# To a file and back. The format follows from the name: LETOR text (.txt), .csv, .parquet, .podium-data, ...
podium.write_data(data, "small.csv")
print((podium.read_data("small.csv").X == data.X).all())
# -> True

# The embedded data set: made by code, in the manner of LETOR; queries of the three parts are different ones.
train, valid, test = demo_splits()
print(train, valid.n_queries, test.n_queries)
# -> RankingData(8,323 rows, 180 queries, 24 features) 60 60

# The rows of one query. Rows may come in any order; `rows` and `offsets` group them.
first = train.rows[train.offsets[0] : train.offsets[1]]
print(len(first), "documents, labels from", train.y[first].min(), "to", train.y[first].max())
# -> 80 documents, labels from 0.0 to 4.0

# What could harm training or evaluation, in sentences.
print(podium.check({"train": train, "test": test}).sentences()[0][:69])
# -> train: note: No relevant document (all labels 0) in 6 of 180 queries

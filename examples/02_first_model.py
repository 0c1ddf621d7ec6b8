"""A first model: train LambdaMART, stop early, evaluate, compare, save. Run: python examples/02_first_model.py"""

import podium
from podium.demo.letor import demo_splits

train, valid, test = demo_splits()

# LambdaMART grows trees that improve a metric of the ranking; the validation set says when to stop.
model = podium.LambdaMART(n_estimators=100, max_leaf_nodes=8, metric="ndcg@10")
model.fit(train, eval_set=valid, early_stopping_rounds=20)
print(model.best_iteration_, "trees")
# -> 99 trees

# Scores have no unit: they order the documents of a query, the highest first.
scores = model.predict(test)
print(podium.evaluate(scores, test, metrics=["ndcg@10", "map"]))
# -> Evaluation(ndcg@10 0.7121, map 0.7238; 60 queries, policy standard)

# Is it better than one good feature? The difference, its interval and a test, over the queries.
bm25 = test.X[:, test.feature_names.index("bm25_body")]
comparison = podium.compare({"bm25": bm25, "lambdamart": scores}, test, metrics=["ndcg@10"])
row = comparison.rows[0]
print(f"{row.difference:+.4f} ndcg@10, 95% interval {row.interval[0]:.4f} to {row.interval[1]:.4f}")
# -> +0.1274 ndcg@10, 95% interval 0.0756 to 0.1834

# What the model looks at most.
print([name for name, _ in podium.explain.importance(model).top(3)])
# -> ['coverage_body', 'click_rate', 'coverage_title']

# One file holds all of it, and reads back as the same model.
model.save("first.podium")
print((podium.load("first.podium").predict(test) == scores).all())
# -> True

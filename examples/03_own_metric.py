"""A metric of your own: define it, evaluate with it, train for it. Run: python examples/03_own_metric.py"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import podium
from podium.demo.letor import demo_splits


@dataclass(frozen=True)
class GoodAbove(podium.Metric):
    """The share of the first k places that hold a document of grade 3 or better."""

    base_name: ClassVar[str] = "good"
    cutoff: int | None = 5

    def value(self, ranked_labels, judged=None):
        """`ranked_labels` are the labels of one query in ranked order; the result is one number."""
        return float((ranked_labels[: self.cutoff] >= 3).sum() / self.cutoff)


print(GoodAbove(5).value(np.array([4, 0, 3, 1, 0])))
# -> 0.4

# It evaluates like any other metric, beside those that are built in ...
train, valid, test = demo_splits(n_queries=120)
plain = podium.MART(n_estimators=20, max_leaf_nodes=8).fit(train)
print(podium.evaluate(plain.predict(test), test, metrics=[GoodAbove(5), "ndcg@10"]))
# -> Evaluation(good@5 0.1583, ndcg@10 0.7382; 24 queries, policy standard)

# ... and LambdaMART can be trained for it: how much the metric changes when two documents swap places follows from
# `value` (slowly; define `swaps` for a fast formula). It also stops the training early.
model = podium.LambdaMART(n_estimators=10, max_leaf_nodes=8, metric=GoodAbove(5))
model.fit(train, eval_set=valid, early_stopping_rounds=5)
print(list(model.evals_["eval_0"]))
# -> ['good@5']

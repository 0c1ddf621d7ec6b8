"""Bagged: the mean of copies of one model, each trained on a sample of the queries or with a seed of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from podium._runtime.warn import warn
from podium.data.ranking import RankingData
from podium.models.frame.holding_out import ValidationParameter, refuse_held_out_copies
from podium.models.frame.init_model import refuse_given_scores
from podium.models.frame.nested import MODEL
from podium.models.frame.parameters import SeedParameter, parameter, parametrized
from podium.models.frame.ranker import Ranker
from podium.pipelines.ensembles.ensemble import Ensemble
from podium.pipelines.ensembles.training import MembersTraining, Trained

SAMPLES = ("queries", "seeds")


@parametrized
class Bagged(SeedParameter, ValidationParameter, Ensemble):
    """Copies of one model that differ in their queries or in their seed; the mean of their scores.

    The mean is that of scores normalized within the query. Members are trained side by side on `n_jobs` threads.
    """

    model: Any = parameter(
        None,
        "The model that is copied, with its parameters. None: a LambdaMART.",
        kind=MODEL,
        positional=True,
        words='a model such as LambdaMART(n_estimators=50) (as text: "lambdamart(n_estimators=50)"), or None',
    )
    n_members: int = parameter(10, "Number of copies.", low=1, high=10**4)
    sample: str = parameter(
        "queries",
        'What makes members differ: "queries", a bootstrap sample of the queries each (as many as there are, drawn '
        'with replacement), or "seeds", all queries and a random_state each, for models that draw rows or features.',
        choices=SAMPLES,
    )

    search_space: ClassVar[Mapping[str, Any]] = {"n_members": [5, 10, 20], "normalization": ["zscore", "rank", None]}

    def _unfitted(self) -> list[Ranker]:
        if self.model is not None:
            return [self.model]
        from podium.models.trees.named import LambdaMART

        return [LambdaMART()]

    def _n_members(self) -> int:
        return self.n_members

    def _train_member(self, number: int, data: RankingData, options: dict[str, Any]) -> Trained:
        model = self._unfitted()[0]
        seeded = {"random_state": (model.random_state + number) % 2**63} if hasattr(model, "random_state") else {}
        member = self._copy(model, self.n_members, **seeded)
        rows = data if self.sample == "seeds" else draw_queries(data, [self.random_state, number])
        return Trained(member.fit(rows, **options))

    def finish(self, training: MembersTraining) -> None:
        members = training.members
        if self.sample == "seeds" and len(members) > 1 and _are_alike(members[0], members[1]):
            name = type(members[0]).__name__
            advice = 'Let it draw rows or features, or use sample="queries".'
            warn(f"Bagged: all members are alike, because {name} draws nothing at random as it is set. {advice}")

    def check_parameters(self) -> None:
        super().check_parameters()
        model = self._unfitted()[0]
        if self.sample == "seeds" and not hasattr(model, "random_state"):
            raise ValueError(f'Bagged: {type(model).__name__} has no random_state; use sample="queries".')
        if self.sample == "queries":
            refuse_given_scores(model, "Bagged")
            refuse_held_out_copies(model)


def draw_queries(data: RankingData, seed: Sequence[int]) -> RankingData:
    """As many queries as there are, drawn with replacement; one that is drawn twice is two queries."""
    drawn = np.random.Generator(np.random.PCG64(list(seed))).integers(0, data.n_queries, data.n_queries)
    chosen = data.subset(np.sort(drawn))
    return replace(chosen, query_ids=np.arange(data.n_queries))


def _are_alike(one: Ranker, other: Ranker) -> bool:
    arrays, others = one.fitted_state().arrays, other.fitted_state().arrays
    return arrays.keys() == others.keys() and all(np.array_equal(arrays[name], others[name]) for name in arrays)

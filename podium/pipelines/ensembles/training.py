"""The training of members: a learner whose step is one more member. All are trained at once, on threads.

Members do not know of each other, so the number of threads changes none of them. A checkpoint holds the members that
are ready, each as its model file would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.threads import make_threads
from podium.data.ranking import RankingData
from podium.learners.stored import read_count, refuse_other_names
from podium.models.frame.ranker import Ranker
from podium.models.frame.transforms import queries_of, without_source
from podium.persistence.saving import from_parts, to_parts

if TYPE_CHECKING:
    from podium.pipelines.ensembles.ensemble import Ensemble


@dataclass(frozen=True)
class Trained:
    """A member, and the scores that models like it gave to training rows they had not seen, where asked for."""

    member: Ranker
    unseen: np.ndarray | None = None  # (rows,) float64


Task = Callable[[], Trained]


class MembersTraining:
    """Members that are ready, and the scores of the evaluation sets by all of them together."""

    is_done = False

    def __init__(self, ensemble: Ensemble, tasks: Sequence[Task], data: RankingData, n_threads: int) -> None:
        self.ensemble, self.tasks, self.data = ensemble, tasks, data
        self.trained: list[Trained] = []
        self.eval_sets: list[RankingData] = []
        self.scores: list[list[np.ndarray]] = []  # of each evaluation set, by each member, normalized
        self.followed: list[np.ndarray] = []
        self._n_threads, self._waiting = min(n_threads, len(tasks)), dict[int, Future[Trained]]()
        self._pool: ThreadPoolExecutor | None = None

    @property
    def n_steps(self) -> int:
        return len(self.trained)

    @property
    def members(self) -> list[Ranker]:
        return [one.member for one in self.trained]

    @property
    def is_complete(self) -> bool:
        return self.n_steps == len(self.tasks)

    def step(self) -> None:
        self._add(self._next())
        if self.is_complete:
            self.close()

    def follow(self, data: RankingData, offset: np.ndarray | float) -> None:
        self.eval_sets.append(without_source(data))
        self.scores.append([])
        self.followed.append(np.zeros(data.n_rows))

    def snapshot(self) -> list[Trained]:
        return self.trained

    def keep(self, snapshot: list[Trained]) -> None:
        self.close()
        self.trained, self.scores = snapshot, [by_member[: len(snapshot)] for by_member in self.scores]

    def close(self) -> None:
        """Cancel what has not begun."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def state(self, best: list[Trained]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        meta: dict[str, Any] = {"members": []}
        arrays = {"ready": np.array([self.n_steps], np.float64)}
        for number, one in enumerate(self.trained):
            kind, facts, parts = to_parts(one.member, False)
            meta["members"].append({"kind": kind, "meta": facts})
            arrays |= {f"{number}/{name}": array for name, array in parts.items()}
            arrays |= {} if one.unseen is None else {f"unseen {number}": one.unseen}
        return meta, arrays

    def checked_steps(self, arrays: Mapping[str, np.ndarray]) -> int:
        ready = arrays["ready"]
        if ready.dtype != np.float64 or ready.shape != (1,) or not 0 <= ready[0] <= len(self.tasks):
            raise ValueError(f"ready must be a number from 0 to {len(self.tasks)}")
        return int(ready[0])

    def restore(self, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> list[Trained]:
        refuse_other_names({"members"}, meta)
        ready = read_count({"ready": self.checked_steps(arrays)}, "ready", len(self.tasks))
        if not isinstance(meta["members"], list) or len(meta["members"]) != ready:
            raise ValueError(f"there must be {ready} members")
        known = {"ready", *(f"unseen {number}" for number in range(ready))}
        others = {name for name in arrays if name not in known and name.partition("/")[0] not in map(str, range(ready))}
        refuse_other_names(set(), others)
        for number, one in enumerate(meta["members"]):
            parts = {name.partition("/")[2]: array for name, array in arrays.items() if name.startswith(f"{number}/")}
            member = from_parts(one["kind"], one["meta"], parts)
            self.ensemble.check_member(member)
            self._add(Trained(member, self._checked_unseen(arrays.get(f"unseen {number}"))))
        return self.trained

    def _checked_unseen(self, scores: np.ndarray | None) -> np.ndarray | None:
        if scores is None:
            return None
        if scores.dtype != np.float64 or scores.shape != (self.data.n_rows,) or not np.isfinite(scores).all():
            raise ValueError("scores of unseen rows must be finite, one per row")
        return scores

    def _add(self, newest: Trained) -> None:
        ensemble, trained = self.ensemble, [*self.trained, newest]
        added = [ensemble.normalized_scores(newest.member, part.X, queries_of(part)) for part in self.eval_sets]
        scores = [[*known, new] for known, new in zip(self.scores, added)]
        ensemble.members_ = [one.member for one in trained]
        self.trained, self.scores = trained, scores
        if self.is_complete:
            ensemble.finish(self)
        self.followed = [self._together(np.stack(known), part) for known, part in zip(scores, self.eval_sets)]

    def _together(self, scores: np.ndarray, part: RankingData) -> np.ndarray:
        """Scores of an evaluation set: as the ensemble combines them or, before it is complete, their mean."""
        if not self.is_complete:
            return np.asarray(scores.mean(axis=0))
        return self.ensemble.combined(scores, part.X, queries_of(part))

    def _next(self) -> Trained:
        """The next member in order; the threads are at work on others meanwhile."""
        if self._n_threads <= 1:
            return self.tasks[self.n_steps]()
        if self._pool is None:
            self._pool = make_threads(self._n_threads, "podium-member")
            self._waiting = {k: self._pool.submit(self.tasks[k]) for k in range(self.n_steps, len(self.tasks))}
        try:
            return self._waiting[self.n_steps].result()
        except BaseException:
            self.close()
            raise

"""Costs: how long candidates take, in seconds, as measured on the same data or predicted from that.

Within a family, the seconds of a training are taken as proportional to rows x columns x steps; those of nets, which are
spent on compiling their programs as well, never as less than what was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from podium.pipelines.auto.candidates import FINAL_FORESTS, FINAL_NETS, Candidate

SLACK = 1.2  # the final training is predicted from fewer rows, and from trainings beside others
_UNMEASURED = {"nets": 3.0}  # seconds of the first training of a family, at the least: programs are compiled
# Forests and nets of the final training: as many of them as there is time for.
AVERAGED = ((FINAL_FORESTS, FINAL_NETS), (4, 8), (3, 6), (2, 4), (1, 2))
LEAST = AVERAGED[-1]


@dataclass(eq=False)
class Costs:
    """Of candidates, by number."""

    candidates: Sequence[Candidate]
    n_rows: int  # that the choice is made on
    n_final_rows: int  # of the final training
    n_features: int
    n_folds: int
    n_threads: int
    measured: dict[int, float] = field(default_factory=dict)  # seconds of one training, the longest of the folds
    evaluation: float = 0.0  # seconds of one evaluation of all queries

    @property
    def rounds(self) -> int:
        """Trainings of a cross-validation that follow one another; the others run beside them."""
        return -(-self.n_folds // min(self.n_threads, self.n_folds))

    def training(self, number: int) -> float:
        """Seconds of one training: measured, or the largest prediction by a candidate of the family."""
        if number in self.measured:
            return self.measured[number]
        candidate, work = self.candidates[number], self._work(number)
        known = (n for n in self.measured if self.candidates[n].family == candidate.family)
        least = 1.0 if candidate.family == "nets" else 0.0  # programs of smaller nets are not compiled faster
        predictions = (self.measured[n] * max(least, work / self._work(n)) for n in known)
        return max(predictions, default=_UNMEASURED.get(candidate.family, 0.0))

    def trying(self, number: int) -> float:
        """Seconds of a cross-validation."""
        return self.rounds * self.training(number)

    def finals(self, number: int, step: int = 0, averaged: tuple[int, int] = AVERAGED[0]) -> float:
        """As how many trainings the final one counts, with `step` trees (0: all)."""
        candidate, (n_forests, n_nets) = self.candidates[number], averaged
        copies = 1.0
        if candidate.family == "nets":
            copies = n_nets / int(candidate.model.get_params()["n_nets"])
        elif candidate.is_averaged:
            copies = -(-n_forests // self.n_threads)
        share = step / candidate.n_steps if step else 1.0
        n_trained = self.n_rows * (self.n_folds - 1) / self.n_folds
        return SLACK * copies * share * self.n_final_rows / n_trained

    def final(self, members: Iterable[tuple[int, int]], averaged: tuple[int, int] = AVERAGED[0]) -> float:
        """Seconds of the final training of these candidates, with so many trees each."""
        return sum(self.finals(number, step, averaged) * self.training(number) for number, step in members)

    def _work(self, number: int) -> float:
        return self.candidates[number].work(self.n_rows, self.n_features)

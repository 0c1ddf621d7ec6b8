"""Experiments: data sets, folds, tuning, runs over processes, stored results and their report.

Names are imported on first use: an experiment needs models, and listing data sets needs none.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from podium.lab.experiments.experiment import Experiment as Experiment
    from podium.lab.experiments.experiment import read_experiment as read_experiment
    from podium.lab.experiments.results import Results as Results
    from podium.lab.experiments.running import Outcome as Outcome
    from podium.lab.experiments.running import run as run

_HOME = {
    "Experiment": "podium.lab.experiments.experiment",
    "Outcome": "podium.lab.experiments.running",
    "Results": "podium.lab.experiments.results",
    "read_experiment": "podium.lab.experiments.experiment",
    "run": "podium.lab.experiments.running",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'podium.lab' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)

"""Experiments: data sets, folds, tuning, runs over processes, stored results and their report."""

from podium.lab.experiments.experiment import Experiment as Experiment
from podium.lab.experiments.experiment import read_experiment as read_experiment
from podium.lab.experiments.results import Results as Results
from podium.lab.experiments.running import Outcome as Outcome
from podium.lab.experiments.running import run as run

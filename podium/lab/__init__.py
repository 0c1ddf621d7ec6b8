"""Experiments: data sets, folds, tuning, runs over processes, stored results and their report."""

from podium.lab.experiment import Experiment as Experiment
from podium.lab.experiment import read_experiment as read_experiment
from podium.lab.results import Results as Results
from podium.lab.running import Outcome as Outcome
from podium.lab.running import run as run

"""Tuning: settings of a model chosen on validation data."""

from podium.lab.tuning.tuning import Tuned as Tuned
from podium.lab.tuning.tuning import tune as tune

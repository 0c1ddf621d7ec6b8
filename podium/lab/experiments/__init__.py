"""Experiments: data sets, folds, models, tasks over processes, stored results."""

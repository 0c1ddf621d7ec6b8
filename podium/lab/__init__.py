"""Experiments: folds, tuning, stored results and their report."""

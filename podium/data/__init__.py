"""Ranking data: rows, labels and queries, checked once."""

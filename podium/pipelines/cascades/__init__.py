"""Cascades: retrieve, compute features, re-rank."""

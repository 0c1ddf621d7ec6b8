"""Models of trees: boosted trees, the named models, and what is done with a fitted forest."""

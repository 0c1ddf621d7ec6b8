"""Boosted regression trees, in the order they work: binning, histograms, splitting, growing, forest, boosting."""

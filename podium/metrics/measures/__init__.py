"""Measures of trec_eval and ir_measures beyond the metrics that models are trained and selected by."""

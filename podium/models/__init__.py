"""Estimators: the scikit-learn frame, the named products, and their registry."""

"""Linear scoring functions: one weight per feature."""

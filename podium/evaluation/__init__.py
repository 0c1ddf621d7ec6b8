"""Rankings judged and compared: evaluate, compare, significance."""

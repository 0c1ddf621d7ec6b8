"""Training rows divided among processes: which of them has which queries, and what they tell each other."""

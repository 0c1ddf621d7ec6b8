"""Neural scoring functions. Training needs JAX (the extra `neural`), scoring NumPy only."""

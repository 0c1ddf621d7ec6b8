"""Models and checkpoints on disk: atomic, checked, without pickle."""

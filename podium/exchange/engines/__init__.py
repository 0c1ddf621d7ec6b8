"""One module per format of models: what other programs write, read and score."""

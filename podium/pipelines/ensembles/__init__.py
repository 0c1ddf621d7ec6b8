"""Models made of models: Bagged, Blend, Stack."""

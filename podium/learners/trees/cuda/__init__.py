"""Boosted trees on an NVIDIA GPU, with the bytes of the CPU."""

"""Compiled kernels: what they were made from, and the files that hold them."""

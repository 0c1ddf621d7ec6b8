"""Arithmetic with the same bits on every machine."""

"""Derivatives in, a scoring function out."""

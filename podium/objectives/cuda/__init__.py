"""Objectives on an NVIDIA GPU with the bits of the CPU."""

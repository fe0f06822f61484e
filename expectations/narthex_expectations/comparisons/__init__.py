"""Comparisons of the values of two branches: how they differ, and what they are due to."""

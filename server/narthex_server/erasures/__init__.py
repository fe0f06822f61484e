"""Erasures: the rows of keys are found, removed from all stores, and searched for."""

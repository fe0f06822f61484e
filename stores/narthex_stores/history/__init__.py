"""Histories: append-only Delta tables of every fact state that a log contained."""

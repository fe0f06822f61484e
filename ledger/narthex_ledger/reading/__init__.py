"""Reads that lock nothing: rows become values that engines and readers use."""

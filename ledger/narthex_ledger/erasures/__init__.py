"""Erasures: the rows of some keys leave every asset, by transactions that may be repeated."""

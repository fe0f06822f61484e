"""Rows that did not become visible: quarantined rows and late rows, listed and replayed."""

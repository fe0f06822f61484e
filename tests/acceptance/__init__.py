"""Acceptance tests: one platform for this package, which ends with its last test."""

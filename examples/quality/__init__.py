"""Rows that go wrong, and what the platform does about them."""

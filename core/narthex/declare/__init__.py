"""Paths that travelling code imports. They are part of the code's identity, so they never move."""

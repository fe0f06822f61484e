"""Samples of the platform's metrics, kept for a month."""

"""Integrations with third-party platforms."""

"""Compatibility: code written for another platform's client runs here unchanged."""

"""Narthex: the open data plane for real-time machine-learning features."""

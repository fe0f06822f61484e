"""Flights of 2013 from New York City: a whole feature project on real data."""

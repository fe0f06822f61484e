"""Rows in and answers out: `/log`, online queries and offline queries."""

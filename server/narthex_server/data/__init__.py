"""Ingestion and queries: `/log`, online queries and offline queries."""

"""Starlette's client for tests, which warns that it will want another HTTP library."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient

__all__ = ["TestClient"]

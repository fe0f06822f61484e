"""Plain JSON routes, error responses, request limits, unimplemented routes."""

"""HTTP helpers: plain JSON routes, error responses, request limits, unimplemented routes."""

"""HTTP alone: plain JSON routes, error responses, request limits, routes not implemented yet."""

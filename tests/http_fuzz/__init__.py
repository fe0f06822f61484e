"""Random calls of all routes of the server, with the tokens of all roles."""

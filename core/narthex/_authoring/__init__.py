"""The parts of all calls of authors: their place in a file, their errors, their durations."""

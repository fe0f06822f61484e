"""The state of jobs: rows that stateful steps keep, and checkpoint directories."""

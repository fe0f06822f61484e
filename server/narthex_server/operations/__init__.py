"""Routes and views for operators: job status, metrics, and upkeep after commits."""

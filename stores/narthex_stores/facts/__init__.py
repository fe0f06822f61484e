"""Facts as Arrow columns: the columns of a log, its newest states, and its public rows."""

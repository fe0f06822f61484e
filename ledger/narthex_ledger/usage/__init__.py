"""When datasets, features and branches were last read."""

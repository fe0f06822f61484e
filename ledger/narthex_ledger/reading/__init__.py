"""Read without locks, and convert rows to values for engines and readers."""

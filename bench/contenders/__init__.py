"""Those who do the same work, each in a process of its own."""

"""Orders of a shop for music: whom to recommend something next."""

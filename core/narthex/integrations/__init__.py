"""What other people's platforms keep for us."""

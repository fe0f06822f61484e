"""What lets code that was written for another platform's client run here unchanged."""

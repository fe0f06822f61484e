"""Sources, sinks and their connectors as authors declare them."""

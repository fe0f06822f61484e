"""One installation: its directory layout, configuration, credentials, and resulting settings."""

"""An author's project: its files, `narthex.toml`, and the commands of its directory."""

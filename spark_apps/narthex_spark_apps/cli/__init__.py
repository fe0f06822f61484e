"""Commands of the Spark apps: `narthex supervisor`, `snapshots`, `quarantine` and `late`."""

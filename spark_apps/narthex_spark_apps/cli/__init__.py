"""Commands of the Spark apps: `narthex supervisor` and `snapshots`."""

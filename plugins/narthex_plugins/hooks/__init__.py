"""The hooks of the types of connections: `narthex_hook`, `spark_hook`."""

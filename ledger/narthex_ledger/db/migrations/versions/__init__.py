"""One file per migration, marked to run before (`pre`) or after (`post`) the new code."""

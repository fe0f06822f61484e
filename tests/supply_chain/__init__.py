"""The dependencies of an installation: their licences, a bill of materials, and an audit."""

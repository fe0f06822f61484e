"""Expressions: what authors write with `col`, `lit` and `when`."""

"""The builders of expressions: `col`, `lit`, `when`, and the methods by kind of value."""

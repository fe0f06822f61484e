"""How authors build expressions: `col`, `lit`, `when`, and the methods by kind of value."""

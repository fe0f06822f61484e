"""Narthex: the open data plane for real-time machine-learning features.

This room has what an author and a compiler need; it knows no engine, no database and no broker.

* Public: `datasets`, `featuresets`, `connectors`, `dtypes`, `expr`, `lib`, `testing`, `client`,
  `integrations`; `compat` for programs written for Fennel; `cli` is the command `narthex`.
  `declare` keeps the import paths of author code that was deployed before.
* `_sdk` turns decorated classes and functions into the records of `_ir`.
* `_analysis` checks them and compares versions; `_compiler` makes the blueprint of assets.
* `_expr` and `_aggregates` compute; `_runtime` parses rows, runs steps and confines author code.
* `_query` plans and answers queries; `_formats` and `_base` are what all of these use.

Start with `datasets`, then `_ir.entities`, then `_compiler.blueprint`.
"""

"""Narthex: the open data plane for real-time machine-learning features.

This package contains the SDK and the compiler; it depends on no engine, database or broker.

* Public: `datasets`, `featuresets`, `connectors`, `dtypes`, `expr`, `lib`, `testing`, `client`,
  `integrations`; `compat` for programs written for Fennel; `cli` is the command `narthex`.
  `declare` keeps the import paths of author code that was deployed before.
* `connector_kinds` is for packages that add kinds of connectors, which `_connectors` finds.
* `_sdk` converts decorated classes and functions to the records of `_ir`.
* `_analysis` checks them and compares versions; `_compiler` makes the blueprint of assets.
* `_expr` and `_aggregates` compute; `_runtime` parses rows, runs steps and confines author code.
* `_query` plans and answers queries, `_columnar_query` those of many rows by columns; all of
  these use `_formats`, `_authoring` and `_base`. `_processes` starts the child processes of
  other rooms.
* `_server_calls` calls a server by plain values, for `client`, which adds frames, and for `cli`.

Start with `datasets`, then `_ir.entities`, then `_compiler.blueprint`.
"""

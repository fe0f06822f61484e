"""What authors' decorators and calls become; the public modules of `narthex` export it.

- `declare` reads what all declarations share; `expressions` is behind `narthex.expr`.
- `closure` captures authors' functions as text with a hash.
- `datasets`, `features` and `connectors` build the declarations; `commit_definitions`
  collects them.

Start with `datasets.datasets`.
"""

from narthex._sdk.commit_definitions import definitions

__all__ = [
    "definitions",
]

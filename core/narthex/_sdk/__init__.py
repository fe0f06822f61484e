"""The implementation of the authors' decorators and calls, exported by the public modules.

- `declare` reads the common parts of declarations; `expressions` implements `narthex.expr`.
- `closure` captures authors' functions as text with a hash.
- `datasets`, `features` and `connectors` build the declarations; `commit_definitions`
  collects them.

Start with `datasets.datasets`.
"""

from narthex._sdk.commit_definitions import definitions

__all__ = [
    "definitions",
]

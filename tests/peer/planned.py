"""Checks and compiles the commits of programs as a server does; prints the outcome of each as JSON.

python -m narthex.compat.fennel planned.py DIRECTORY
"""

import builtins
import importlib
import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from narthex._analysis.graph import check
from narthex._compiler import compile_blueprint, not_carried_out
from narthex._sdk.commit_definitions import definitions
from narthex.datasets import Dataset
from narthex.errors import DefinitionErrors, NarthexError, raise_all
from narthex.featuresets import Featureset


class _Planned(Exception):
    """A commit was compiled; the rest of the program needs a platform."""


class _Server:
    """The part of a server that decides whether it can carry out a commit."""

    def commit(
        self,
        message: str,
        datasets: Sequence[Dataset],
        featuresets: Sequence[Featureset] = (),
    ) -> None:
        """Compile a commit.

        Raises:
            DefinitionErrors: It is refused.
            _Planned: It is not.
        """
        del message
        found = definitions(datasets, featuresets)
        raise_all(check(found))
        raise_all(not_carried_out(found))
        compile_blueprint(found)
        raise _Planned


def outcome(name: str) -> Mapping[str, object]:
    """Return whether a server accepts the commit of a module, or the codes of its errors."""
    try:
        for _ in importlib.import_module(name).run(_Server()):
            pass
    except _Planned:
        return {"accepted": True, "codes": []}
    except DefinitionErrors as errors:
        codes = sorted({error.code for error in errors.exceptions_flat()})
        return {"accepted": False, "codes": codes, "said": str(errors)}
    except (NarthexError, ValueError, TypeError) as error:
        return {"accepted": False, "codes": ["definition"], "said": str(error)}
    return {"accepted": False, "codes": ["no commit"], "said": "the program makes no commit"}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    place = Path(sys.argv[1])
    sys.path.insert(0, str(place))
    vars(builtins)["stage"] = str
    for file in sorted(place.glob("program_*.py")):
        sys.stdout.write(json.dumps({"name": file.stem} | outcome(file.stem)) + "\n")

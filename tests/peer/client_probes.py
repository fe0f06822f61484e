# mypy: ignore-errors
"""Runs programs with `fennel`, whichever module that is; prints the outcome of each as JSON.

    python client_probes.py DIRECTORY

DIRECTORY contains one module per program. It runs in the environment of the peer's client, and
under `import fennel` of Narthex.
"""

import builtins
import importlib
import json
import math
import sys
import traceback
import warnings
from datetime import datetime
from pathlib import Path

import fennel.testing
import numpy as np
import pandas as pd

_BUILT_IN = (ValueError, TypeError, KeyError, AttributeError, NotImplementedError)


def outcome(name):
    """Run a module; return the stage that it reached, and what it yielded or the error."""
    reached = ["import"]
    builtins.stage = reached.append
    shown = []
    try:
        module = importlib.import_module(name)
        for one in module.run(fennel.testing.MockClient()):
            shown.append(plain(one))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        kinds = [kind.__name__ for kind in _BUILT_IN if isinstance(error, kind)]
        where = traceback.extract_tb(error.__traceback__)[-1]
        return {
            "stage": reached[-1],
            "is": kinds,
            "said": _said(error),
            "at": f"{type(error).__name__} {Path(where.filename).name}:{where.lineno}",
        }
    return {"stage": "done", "shown": shown}


def _said(error):
    try:
        return str(error)[:400]
    except Exception as failure:  # some errors of the peer's cannot be printed
        return f"{type(error).__name__}, which cannot be printed: {failure}"


def plain(value):
    """Return a value as JSON that tells types apart; rows of a frame have no order."""
    match value:
        case _ if value is pd.NA or value is pd.NaT:
            return "<NA>"
        case pd.DataFrame():
            rows = [[plain(one) for one in row] for row in value.itertuples(index=False)]
            columns = {name: str(of) for name, of in value.dtypes.items()}
            return {"columns": columns, "rows": rows}
        case pd.Series():
            return {"dtype": str(value.dtype), "values": [plain(one) for one in value]}
        case bool() | np.bool_():
            return bool(value)
        case int() | np.integer():
            return int(value)
        case None | str():
            return value
        case float() | np.floating():
            return float(f"{value:.9g}") if math.isfinite(value) else str(float(value))
        case datetime():
            return f"at {pd.Timestamp(value).isoformat()}"
        case list() | tuple():
            return [plain(one) for one in value]
        case np.ndarray():
            return {"array": [plain(one) for one in value]}
        case dict():
            return {str(name): plain(one) for name, one in value.items()}
        case _ if hasattr(value, "as_json"):
            return plain(value.as_json())
        case _:
            return f"{type(value).__name__} {value}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    place = Path(sys.argv[1])
    sys.path.insert(0, str(place))
    out = sys.stdout
    sys.stdout = sys.stderr
    for file in sorted(place.glob("program_*.py")):
        out.write(json.dumps({"name": file.stem} | outcome(file.stem)) + "\n")
        out.flush()

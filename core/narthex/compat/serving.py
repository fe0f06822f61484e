"""The Narthex modules behind `import fennel…`, and the finder that serves them."""

import importlib
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

from typing_extensions import override

ROOT: Final = "fennel"

_DATASETS: Final = (
    "narthex.compat.declaring",
    "narthex.compat.aggregates",
    "narthex.compat.steps",
    "narthex.datasets",
)
_FEATURESETS: Final = ("narthex.compat.declaring", "narthex.featuresets")
_LIB: Final = ("narthex.compat.declaring", "narthex.lib")
_DTYPES: Final = ("narthex.compat.declaring", "narthex.dtypes")
_CONNECTORS: Final = ("narthex.compat.connectors", "narthex.connectors")
_TESTING: Final = ("narthex.compat.testing",)

SERVED: Final[Mapping[str, Sequence[str]]] = {
    "fennel": (*_DATASETS, "narthex.featuresets", "narthex.lib"),
    "fennel.datasets": _DATASETS,
    "fennel.datasets.aggregate": _DATASETS,
    "fennel.datasets.datasets": _DATASETS,
    "fennel.featuresets": _FEATURESETS,
    "fennel.featuresets.featureset": _FEATURESETS,
    "fennel.connectors": _CONNECTORS,
    "fennel.connectors.connectors": _CONNECTORS,
    "fennel.connectors.kinesis": _CONNECTORS,
    "fennel.sources": _CONNECTORS,
    "fennel.dtypes": _DTYPES,
    "fennel.dtypes.dtypes": _DTYPES,
    "fennel.expr": ("narthex.compat.expressions",),
    "fennel.expr.expr": ("narthex.compat.expressions",),
    "fennel.lib": _LIB,
    "fennel.lib.aggregate": _DATASETS,
    "fennel.lib.expectations": _LIB,
    "fennel.lib.functions": _LIB,
    "fennel.lib.includes": _LIB,
    "fennel.lib.metadata": _LIB,
    "fennel.lib.params": _LIB,
    "fennel.lib.schema": (*_LIB, "narthex.dtypes"),
    "fennel.lib.secrets": ("narthex.secrets",),
    "fennel.client": ("narthex.compat.client",),
    "fennel.client.client": ("narthex.compat.client",),
    "fennel.testing": _TESTING,
    "fennel.testing.mock_client": _TESTING,
    "fennel.testing.test_utils": _TESTING,
    "fennel.testing.test_client": _TESTING,
    "fennel.integrations": ("narthex.integrations.aws",),
    "fennel.integrations.aws": ("narthex.integrations.aws",),
    "fennel.internal_lib": (),
    "fennel.internal_lib.duration": ("narthex.compat.durations",),
    "fennel._vendor": (),
    "fennel._vendor.requests": ("narthex.compat.status_codes",),
}
"""For each module of Fennel's, the modules whose public names it serves; the first one wins."""


class _Names(Loader):
    """Fills a module with the public names of Narthex modules."""

    def __init__(self, behind: Sequence[str]) -> None:
        self._behind = behind

    @override
    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    @override
    def exec_module(self, module: ModuleType) -> None:
        names: dict[str, object] = {}
        for path in reversed(self._behind):
            names.update(public_names(importlib.import_module(path)))
        for name in names:
            # A submodule that is imported later would replace the name: `lib.expectations`.
            if f"{module.__name__}.{name}" in SERVED:
                importlib.import_module(f"{module.__name__}.{name}")
        vars(module).update(names)
        vars(module)["__all__"] = sorted(names)
        vars(module)["__getattr__"] = partial(_part, module.__name__)


def _part(module: str, name: str) -> ModuleType:
    """Import a submodule on first access: `import fennel; fennel.lib.meta`."""
    path = f"{module}.{name}"
    if path not in SERVED:
        raise AttributeError(f"module `{module}` has no `{name}` in Narthex")
    return importlib.import_module(path)


def public_names(module: ModuleType) -> dict[str, object]:
    """Return the names in a module's `__all__`; without one, the names that it defines itself."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return {name: getattr(module, name) for name in listed}
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }


class FennelModuleFinder(MetaPathFinder):
    """Finds `fennel` and its submodules, and no other modules."""

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        behind = SERVED.get(fullname)
        if behind is None:
            return None
        return ModuleSpec(fullname, _Names(behind), is_package=_has_parts(fullname))


def _has_parts(module: str) -> bool:
    return any(name.startswith(f"{module}.") for name in SERVED)

"""Reads events back by the classes that OpenLineage generates from its JSON schema."""

import importlib
import inspect
import pkgutil
from typing import Any

import attrs
import cattrs
from openlineage.client import generated
from openlineage.client.event_v2 import RunEvent
from openlineage.client.facet_v2 import BaseFacet
from openlineage.client.serde import Serde

FACETS = (
    *("DatasetFacet", "InputDatasetFacet", "JobFacet"),
    *("OutputDatasetFacet", "RunFacet"),
)


SCHEMA = ("_schemaURL", "schemaURL")
"""The members that the classes set themselves."""


def facet_classes() -> dict[str, type]:
    """Return all generated facets, by the address of their schema."""
    found: dict[str, type] = {}
    for module in pkgutil.iter_modules(generated.__path__):
        loaded = importlib.import_module(f"{generated.__name__}.{module.name}")
        for _, cls in inspect.getmembers(loaded, inspect.isclass):
            if issubclass(cls, BaseFacet):
                found[cls._get_schema()] = cls
    return found


CLASSES = facet_classes()


def read_back(event: dict[str, Any]) -> RunEvent:
    """Build an event of the generated classes, which validate it; unknown members are refused."""
    converter = cattrs.Converter(forbid_extra_keys=True)

    def of_class(value: dict[str, Any], cls: Any) -> Any:
        schema = value.get("_schemaURL") or value.get("schemaURL")
        if schema is not None:
            assert schema == cls._get_schema()
        members = {name: part for name, part in value.items() if name not in SCHEMA}
        known = {field.name: field for field in attrs.fields(attrs.resolve_types(cls))}
        assert members.keys() <= known.keys(), (cls, members.keys() - known.keys())
        built = {
            known[name].alias: converter.structure(part, known[name].type)
            for name, part in members.items()
        }
        return cls(**built)

    def facet(value: dict[str, Any], _: type) -> Any:
        return of_class(value, CLASSES[value["_schemaURL"]])

    base = importlib.import_module(f"{generated.__name__}.base")
    bases = {getattr(base, name) for name in FACETS}
    converter.register_structure_hook_func(attrs.has, of_class)
    converter.register_structure_hook_func(lambda cls: cls in bases, facet)
    return converter.structure(event, RunEvent)


def assert_valid(event: dict[str, Any]) -> None:
    """Assert that an event is one of OpenLineage, and that nothing of it is lost in its classes."""
    assert Serde.to_dict(read_back(event)) == event

"""Compare the output schema of a pipeline with its dataset's declaration."""

from collections.abc import Iterator

from narthex._base.origin import Origin
from narthex._ir.node_schema import NodeSchema
from narthex._ir.schema import Column, Schema
from narthex._ir.type_names import type_name
from narthex._ir.types import unrestricted
from narthex.errors import DefinitionError, SchemaDiffers


def check_output(
    given: NodeSchema, wanted: Schema, dataset: str, pipeline: str, origin: Origin
) -> tuple[DefinitionError, ...]:
    """Compare keys, values and the timestamp's name; return an error for each difference."""
    messages = [
        *_differences(given.keys, wanted.keys, "key", dataset, pipeline),
        *_differences(given.values, wanted.values, "value", dataset, pipeline),
    ]
    if given.timestamp != wanted.timestamp:
        messages.append(
            f"pipeline `{pipeline}` gives the timestamp `{given.timestamp}`; "
            f"`{dataset}` declares `{wanted.timestamp}`"
        )
    return tuple(SchemaDiffers(message, origin=origin) for message in messages)


def _differences(
    given: tuple[Column, ...], wanted: tuple[Column, ...], role: str, dataset: str, pipeline: str
) -> Iterator[str]:
    found = {column.name: column.type for column in given}
    declared = {column.name: column.type for column in wanted}
    for name, of in declared.items():
        if name not in found:
            yield f"pipeline `{pipeline}` does not give the {role} `{name}` of `{dataset}`"
        elif unrestricted(found[name]) != unrestricted(of):
            yield (
                f"pipeline `{pipeline}` gives the {role} `{name}` as `{type_name(found[name])}`; "
                f"`{dataset}` declares `{type_name(of)}`"
            )
    for name in found:
        if name not in declared:
            yield (
                f"pipeline `{pipeline}` gives the {role} `{name}`, which `{dataset}` does not "
                "declare"
            )

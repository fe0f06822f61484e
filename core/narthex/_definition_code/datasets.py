"""A dataset as a class."""

from collections.abc import Iterable, Mapping

from narthex._base.times import render_duration
from narthex._definition_code.layout import (
    FunctionNames,
    call,
    described,
    documentation,
    functions_of,
    indented,
    keywords,
    structs_text,
)
from narthex._definition_code.steps import PipelineWriter
from narthex._ir import (
    Action,
    Dataset,
    DatasetRef,
    DatasetSchemaInfo,
    Expectation,
    Field,
    Join,
    Metadata,
    Operator,
    Pipeline,
    Role,
    Severity,
)
from narthex._ir.type_names import annotation


def dataset_code(dataset: Dataset, known: Iterable[Dataset]) -> str:
    """Write the class that declares a dataset, without its sources and sinks.

    The functions of authors that its pipelines call, and the structs of its types, are above it.

    Args:
        dataset: The dataset.
        known: The datasets that its pipelines read, among others.
    """
    schemas = {one.name: DatasetSchemaInfo(name=one.name, schema=one.schema) for one in known}
    functions = functions_of(dataset.pipelines)
    lines = [
        structs_text([dataset.schema, dataset.pipelines]),
        functions.text(),
        metadata_code(dataset.metadata),
        _decorator(dataset),
        f"class {dataset.name}:\n",
        indented(described(dataset.metadata.description)),
        *(indented(_field(one)) for one in dataset.schema.fields),
        *(indented(_pipeline(one, functions, schemas)) for one in dataset.pipelines),
        indented(expectations_code(dataset.expectations)),
    ]
    return "".join(lines)


def metadata_code(metadata: Metadata) -> str:
    """Write `@meta`; empty if there is nothing to say but the description."""
    said: dict[str, object] = {"owner": metadata.owner} if metadata.owner else {}
    if metadata.tags:
        said["tags"] = list(metadata.tags)
    said |= {"deprecated": True} if metadata.deprecated else {}
    return f"@{call('meta', keywords(said))}\n" if said else ""


def expectations_code(expectations: Iterable[Expectation]) -> str:
    """Write the method that lists expectations; empty without any."""
    found = [_expectation(one) for one in expectations]
    if not found:
        return ""
    listed = indented("".join(f"{one},\n" for one in found))
    body = indented(f"return [\n{listed}]\n")
    return f"\n@expectations\ndef promises(cls):\n{body}"


def _expectation(one: Expectation) -> str:
    said = keywords(dict(one.arguments))
    said += [] if one.mostly is None else keywords({"mostly": one.mostly})
    said += [] if one.severity is Severity.WARNING else keywords({"severity": one.severity.value})
    said += [] if one.action is Action.WARN else keywords({"action": one.action.value})
    return call(one.kind, said)


def _decorator(dataset: Dataset) -> str:
    said: dict[str, object] = {} if dataset.version == 1 else {"version": dataset.version}
    if dataset.history_us is not None:
        said["history"] = render_duration(dataset.history_us)
    index = dataset.index
    if index is not None:
        said |= (
            {"index": True}
            if index.online and index.offline
            else {"online": index.online, "offline": index.offline}
        )
    if dataset.partitions is not None:
        said["partitions"] = dataset.partitions
    return f"@{call('dataset', keywords(said))}\n" if said else "@dataset\n"


def _field(one: Field) -> str:
    said: dict[str, object] = {"key": True} if one.role is Role.KEY else {}
    said |= {"timestamp": True} if one.role is Role.TIMESTAMP else {}
    said |= {"erase_key": True} if one.erase_key else {}
    role = f" = {call('field', keywords(said))}" if said else ""
    described = {"description": one.metadata.description} if one.metadata.description else {}
    meta = f".meta({', '.join(keywords(described))})" if described else ""
    if meta and not role:
        role = " = field()"
    return f"{one.name}: {annotation(one.type)}{role}{meta}\n"


def _pipeline(
    pipeline: Pipeline, functions: FunctionNames, schemas: Mapping[str, DatasetSchemaInfo]
) -> str:
    inputs = _parameters(pipeline)
    writer = PipelineWriter(inputs, functions, schemas)
    steps = writer.rows(pipeline.terminal)
    body = f"return (\n{indented(steps)}\n)\n" if "\n" in steps else f"return {steps}\n"
    head = f"def {pipeline.name}(cls, {', '.join(inputs.values())}):\n"
    text = documentation(pipeline.metadata.description) + body
    named = call("inputs", list(inputs))
    return f"\n@pipeline\n@{named}\n{head}{indented(text)}"


def _parameters(pipeline: Pipeline) -> dict[str, str]:
    """Return the parameter for each dataset that a pipeline names, the first input first."""
    names = dict.fromkeys((*pipeline.inputs, *_read(pipeline.terminal)))
    found: dict[str, str] = {}
    for name in names:
        plain = name.lower() if name.lower() != name else f"{name}_rows"
        taken = {*found.values(), "cls"}
        found[name] = plain if plain not in taken else f"{plain}_{len(found)}"
    return found


def _read(operator: Operator) -> Iterable[str]:
    if isinstance(operator, DatasetRef):
        yield operator.dataset
        return
    yield from _read(operator.input)
    if isinstance(operator, Join):
        yield operator.right.dataset
    other = getattr(operator, "other", None)
    if other is not None:
        yield from _read(other)

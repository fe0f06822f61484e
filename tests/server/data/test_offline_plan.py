"""The plan of an offline query lists its datasets, including those of author code."""

from narthex._ir.assets import DatasetPlan, LogShape, LogSpec
from narthex._ir.code import UserCode
from narthex._ir.entities import CodeExtractor
from narthex._ir.schema import Schema
from narthex._query.read_plan import AliasStep, CodeStep, LookupStep, ReadPlan, Step
from narthex_server.data.offline_queries import looked_up


def _plan(*steps: Step) -> ReadPlan:
    return ReadPlan(inputs=(), outputs=(), steps=steps, types={}, datasets={})


def _lookup(name: str) -> LookupStep:
    log = LogSpec(shape=LogShape.KEYED, keys=(), values=(), time_field="at")
    dataset = DatasetPlan(
        name=name,
        version=1,
        schema=Schema(()),
        log=log,
        aggregates=(),
        ladder_us=(),
        online=True,
        offline=True,
        expectations=(),
    )
    return LookupStep(dataset=dataset, requests=())


def _code(*datasets: str) -> CodeStep:
    code = UserCode(entry="f", source="", python="3.11")
    extractor = CodeExtractor(name="f", inputs=(), outputs=(), code=code, datasets=datasets)
    return CodeStep(extractor=extractor, featureset="F", inputs=(), outputs=(), features=())


def test_datasets_of_lookups_and_of_code_are_named_once_each() -> None:
    plan = _plan(
        _lookup("Users"), AliasStep(feature="F.a", source="F.b"), _code("Spend", "Users"), _code()
    )

    assert looked_up(plan) == ("Users", "Spend")

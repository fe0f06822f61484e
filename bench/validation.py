"""Measure how long it takes to check a project of many datasets; print one line of JSON.

    python -m bench.validation [--datasets 1000]

Reports CPU time of the process, the best of three. The datasets are a chain, each a filter of the
previous one: the deepest graph of that many. The target is one second for a thousand.
"""

import argparse

import attrs

from bench.figures import best_s, load_average, report_result
from narthex._analysis.graph import check
from narthex._ir.entities import Dataset, Definitions, Pipeline
from narthex._ir.expression_nodes import Ref
from narthex._ir.operators import DatasetRef, Filter
from narthex._ir.schema import Field, Metadata, Role, Schema
from narthex._ir.types import Bool, Datetime


def chain(length: int) -> Definitions:
    """Return `count` datasets, each of which reads the previous one."""
    schema = Schema(
        (Field(name="ok", type=Bool()), Field(name="at", type=Datetime(), role=Role.TIMESTAMP))
    )
    first = Dataset(name="D0", version=1, schema=schema, metadata=Metadata(owner="a@b.co"))
    datasets = [first]
    for number in range(1, length):
        step = Filter(DatasetRef(f"D{number - 1}"), Ref("ok"))
        pipeline = Pipeline(name="p", inputs=(f"D{number - 1}",), terminal=step)
        datasets.append(attrs.evolve(first, name=f"D{number}", pipelines=(pipeline,)))
    return Definitions(datasets=tuple(datasets), featuresets=())


def main() -> int:
    """Measure and print; return 1 if the check finds errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, default=1000)
    count = parser.parse_args().datasets
    definitions = chain(count)
    errors = check(definitions)
    figures = {
        "bench": "validation",
        "result": "wrong" if errors else "ok",
        "datasets": count,
        "cpu_s": round(best_s(lambda: check(definitions)), 3),
        "target_s": 1.0,
        "load_average": load_average(),
    }
    report_result("validation", figures)
    return 1 if errors else 0


if __name__ == "__main__":
    raise SystemExit(main())

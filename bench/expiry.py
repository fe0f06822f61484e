"""Measure what a history costs the writer of an LMDB index, and how large the index stays.

Facts arrive in order of time at a constant rate, a batch at a time; after each batch the writer
deletes what has expired, as an index feed does when it flushes. Three indexes of the same facts are
written in turn, three times, and the best run of each counts: one without a history, one whose
history is longer than the facts, so that nothing expires, and one whose history is a tenth of their
time. Prints a table and one line of JSON. The bench first compares the answers of the last with
those of the first as of the newest instant, within the history; a wrong run is void.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import attrs

from bench.figures import load_average, report_result, show
from bench.index import LOG, index_spec, make_facts
from narthex._ir.assets import IndexSpec, LogShape
from narthex._ir.facts import Fact
from narthex_spark_apps.writers.index_writer import EXPIRED_AT_ONCE
from narthex_stores.indexes import LmdbIndex, LookupResult

SPAN_US = 20 * 86_400_000_000
QUARTERS = 4
FACTOR = 5
"""How many entries may be deleted for each fact of a batch."""
RUNS = 3


@attrs.frozen(kw_only=True)
class Written:
    """One run.

    Attributes:
        rate: Facts per CPU-second, expiry included.
        entries: The entries of all tables after each quarter of the facts.
        answers: The newest answers of some keys.
    """

    rate: float
    entries: tuple[int, ...]
    answers: list[LookupResult | None]


def written(spec: IndexSpec, facts: Sequence[Fact], *, batch: int) -> Written:
    """Write the facts into an empty index."""
    entries: list[int] = []
    with tempfile.TemporaryDirectory() as directory:
        index = LmdbIndex(Path(directory), spec)
        spent = 0.0
        for start in range(0, len(facts), batch):
            began = time.process_time()
            part = facts[start : start + batch]
            index.apply(part, offsets={("payments", 0): start + batch}, epoch=1)
            most = max(EXPIRED_AT_ONCE, FACTOR * len(part))
            index.expire(now_us=part[-1].event_time, most=most, epoch=1)
            spent += time.process_time() - began
            if (start + batch) * QUARTERS // len(facts) > len(entries):
                entries.append(_entries(index))
        asked = list(dict.fromkeys(fact.key for fact in facts[-100:]))
        with index.read() as reader:
            answers = reader.lookup(asked, [facts[-1].event_time] * len(asked))
        index.close()
    return Written(rate=len(facts) / spent, entries=tuple(entries), answers=answers)


def _entries(index: LmdbIndex) -> int:
    with index.read() as snapshot:
        tables = (snapshot.tables.facts, snapshot.tables.tiles)
        return sum(snapshot.transaction.stat(table)["entries"] for table in tables)


def specs() -> dict[str, IndexSpec]:
    """Return the indexes to measure, without a history."""
    keyed = attrs.evolve(LOG, shape=LogShape.KEYED)
    return {
        "4 aggregates, 2 windows": index_spec(("1h", "1d")),
        "keyed rows": IndexSpec(log=keyed),
    }


def best_of(spec: IndexSpec, facts: Sequence[Fact], *, batch: int) -> dict[str, Written]:
    """Return the best runs by history, written in turn.

    Raises:
        SystemExit: The answers differ.
    """
    histories = {
        "none": spec,
        "longer than the facts": attrs.evolve(spec, history_us=2 * SPAN_US, expires=True),
        "a tenth of their time": attrs.evolve(spec, history_us=SPAN_US // 10, expires=True),
    }
    best: dict[str, Written] = {}
    for _ in range(RUNS):
        for history, made in histories.items():
            run = written(made, facts, batch=batch)
            if history not in best or best[history].rate < run.rate:
                best[history] = run
    if len({repr(run.answers) for run in best.values()}) > 1:
        raise SystemExit("the answers differ; the run is void")
    return best


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog="python -m bench.expiry")
    parser.add_argument("--facts", type=int, default=200_000)
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=5_000)
    options = parser.parse_args(arguments)
    facts = make_facts(options.facts, keys=options.keys, days=SPAN_US / 86_400_000_000)
    rows: list[list[str]] = []
    result: dict[str, object] = {"load": load_average()}
    for name, spec in specs().items():
        for history, run in best_of(spec, facts, batch=options.batch).items():
            rows.append([name, history, f"{run.rate:,.0f}", *(f"{n:,}" for n in run.entries)])
            result[f"{name}, {history}"] = [round(run.rate), *run.entries]
    head = ["index", "history", "facts per CPU-second", "entries after 1/4", "2/4", "3/4", "all"]
    show("expiry", head, rows)
    report_result("expiry", result)


if __name__ == "__main__":
    main()

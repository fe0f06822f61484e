"""The process that reads, replays and discards the rows of a dataset's quarantine, and reads its
late rows: `python -m` runs it.

The server starts it, because a list is read from a whole log, and because a replay runs code of
authors. It reads one JSON object from stdin, whose `operation` decides what else it has, and writes
one to stdout: `result`, or `error` and whether it is the `caller`'s.
"""

import json
import sys
from collections.abc import Mapping, Sequence

from narthex._base import Json, from_plain, render_instant
from narthex._formats import render_cell
from narthex._ir import LogSpec, ResolvedAsset
from narthex._runtime.ingest import render_late_row
from narthex.errors import ArgumentsUnfit, NarthexError
from narthex.settings import Settings, load_settings
from narthex_spark_apps.row_inspection.late_rows import LateEntry, late_rows
from narthex_spark_apps.row_inspection.quarantine_replay import (
    QuarantinedRow,
    Replay,
    ReplayedRow,
    discard,
    quarantined_rows,
)
from narthex_spark_apps.sources.topics.scan import scan
from narthex_stores import LogProducer, StoreError, open_log, platform_broker

MOST_SHOWN = 2000
"""How many characters of a payload a list shows."""


def main() -> None:
    """Do what stdin asks for, and print the result."""
    settings = load_settings()
    open_log(settings, sys.stderr)
    try:
        answer: Json = {"result": inspect(json.load(sys.stdin), settings)}
    except ArgumentsUnfit as error:
        answer = {"error": error.message, "hint": error.hint or "", "caller": True}
    except (NarthexError, StoreError) as error:
        # Below its first line, an error of the store has the frames of its library.
        answer = {"error": str(error).partition("\n")[0], "hint": "", "caller": False}
    sys.stdout.write(json.dumps(answer) + "\n")


def inspect(asked: Mapping[str, Json], settings: Settings) -> Json:
    """Carry out one operation; return its result as JSON.

    Raises:
        ArgumentsUnfit: A row does not exist, or cannot be replayed.
        StoreError: The broker does not answer.
    """
    match asked:
        case {"operation": "quarantined", "topic": str(topic), "limit": int(limit)}:
            return _page(quarantined_rows(settings, topic), limit, asked.get("before"))
        case {"operation": "row", "topic": str(topic), "row": str(name)}:
            (row,) = _named(quarantined_rows(settings, topic), [name])
            return {**_listed(row), "payload": row.payload}
        case {"operation": "late", "topic": str(topic), "limit": int(limit)}:
            return _late(asked, settings, topic, limit)
        case {"operation": "discard", "topic": str(topic)}:
            rows = _chosen(quarantined_rows(settings, topic), asked.get("rows"))
            with LogProducer(platform_broker(settings)) as producer:
                return _outcomes(discard(rows, topic, producer))
        case {"operation": "replay", "topic": str(topic)}:
            return _replay(asked, settings, topic)
        case _:
            raise ValueError("stdin has no known `operation` with its arguments")


def _page(rows: Sequence[QuarantinedRow], limit: int, before: Json) -> Json:
    newest = [row for row in reversed(rows) if not isinstance(before, int) or row.offset < before]
    shown = newest[:limit]
    return {
        "rows": [
            {
                **_listed(row),
                "payload": row.payload[:MOST_SHOWN],
                "is_cut": len(row.payload) > MOST_SHOWN,
            }
            for row in shown
        ],
        "total": len(rows),
        "next": str(shown[-1].offset) if len(newest) > limit else None,
    }


def _listed(row: QuarantinedRow) -> dict[str, Json]:
    listed: dict[str, Json] = {
        "row": row.name,
        "rejected_at": render_instant(row.rejected_at),
        "reason": row.reason,
        "expectations": list(row.expectations),
        "source": row.source_id,
        "kind": row.kind.value,
    }
    computed = row.of_pipeline
    if computed is None:
        place = row.place()
        return listed | {
            "partition": place.partition,
            "offset": place.offset,
            "ordinal": place.ordinal,
            "field": row.field,
        }
    listed |= {"pipeline": computed.pipeline, "row_id": computed.row_id}
    if computed.place is None:
        return listed
    return listed | {
        "step": computed.step,
        "file": computed.place.file,
        "line": computed.place.line,
        "together": computed.together,
    }


def _chosen(found: Sequence[QuarantinedRow], names: Json) -> Sequence[QuarantinedRow]:
    return _named(found, [str(name) for name in names]) if isinstance(names, list) else found


def _named(found: Sequence[QuarantinedRow], names: Sequence[str]) -> tuple[QuarantinedRow, ...]:
    by_name = {row.name: row for row in found}
    missing = [name for name in names if name not in by_name]
    if missing:
        raise ArgumentsUnfit(f"no row in quarantine is named {', '.join(missing)}")
    return tuple(by_name[name] for name in dict.fromkeys(names))


def _replay(asked: Mapping[str, Json], settings: Settings, topic: str) -> Json:
    plain = asked.get("sources")
    sources = from_plain(plain if isinstance(plain, list) else [])
    jobs = tuple(one for one in sources if isinstance(one, ResolvedAsset))  # type: ignore[attr-defined]
    chosen = _chosen(quarantined_rows(settings, topic), asked.get("rows"))
    payload = asked.get("payload")
    repaired = {}
    if isinstance(payload, dict):
        if len(chosen) != 1:
            raise ArgumentsUnfit(f"a payload replaces that of one row, not of {len(chosen)}")
        repaired[chosen[0].name] = payload
    with LogProducer(platform_broker(settings)) as producer:
        return _outcomes(
            Replay(jobs=jobs, settings=settings, producer=producer).run(chosen, repaired)
        )


def _outcomes(rows: Sequence[ReplayedRow]) -> Json:
    return {
        "rows": [
            {"row": one.row.name, "outcome": one.outcome, "reason": one.reason or None}
            for one in rows
        ]
    }


def _late(asked: Mapping[str, Json], settings: Settings, topic: str, limit: int) -> Json:
    log, disorder = from_plain(asked["log"]), asked.get("disorder_us")
    if not isinstance(log, LogSpec) or not isinstance(disorder, dict):
        raise TypeError("late rows need the `log` and the `disorder_us` of its sources")
    by_source = {name: int(us) for name, us in disorder.items() if isinstance(us, int)}
    found = late_rows(scan(platform_broker(settings), topic), log, by_source)
    before = tuple(int(str(part)) for part in asked["before"] or ())  # type: ignore[union-attr]
    newest = [
        (cursor, entry)
        for cursor, entry in sorted(
            ((_cursor(entry), entry) for entry in found), key=lambda one: one[0], reverse=True
        )
        if not before or cursor < before
    ]
    shown = newest[:limit]
    return {
        "rows": [_late_row(entry, log) for _, entry in shown],
        "total": len(found),
        "next": ".".join(map(str, shown[-1][0])) if len(newest) > limit else None,
    }


def _cursor(entry: LateEntry) -> tuple[int, int, int]:
    return entry.arrived_ms, entry.log_partition, entry.log_offset


def _late_row(entry: LateEntry, log: LogSpec) -> Json:
    values = None
    if entry.alive:
        values = {
            column.name: render_cell(cell, column.type)
            for column, cell in zip(log.values, entry.values, strict=True)
        }
    return {
        **render_late_row(entry.row, log.keys),
        "values": values,
        "row_id": entry.row_id.hex(),
        "alive": entry.alive,
        "arrived_at": render_instant(entry.arrived_ms * 1000),
        "log_partition": entry.log_partition,
        "log_offset": entry.log_offset,
        "changed_from": render_instant(entry.row.event_time),
        "changed_until": None if entry.until is None else render_instant(entry.until),
    }


if __name__ == "__main__":
    main()

"""Statements on series of metrics and their samples."""

import datetime as dt
import json
from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert
from sqlalchemy.engine import Connection

from narthex_ledger.db.schema import BIG, INSTANT, METRIC_SAMPLE, METRIC_SERIES, TEXT
from narthex_ledger.db.statements.commits import NOW
from narthex_ledger.model.metric_views import (
    MEASURES,
    Fold,
    MetricCount,
    MetricKind,
    MetricReading,
    Numbers,
)

_GIVEN = (
    sa.func.unnest(
        sa.cast(sa.bindparam("series"), ARRAY(BIG)), sa.cast(sa.bindparam("texts"), ARRAY(TEXT))
    )
    .table_valued(sa.column("series_id", BIG), sa.column("text", TEXT), name="given")
    .render_derived()
)
_KEY = ("kind", "branch", "subject")
_THIS_MINUTE = sa.func.date_trunc("minute", NOW, type_=INSTANT)


@attrs.frozen(kw_only=True)
class MetricSeriesRow:
    """A series as stored, with the counters of its newest sample."""

    series_id: int
    sampled_at: dt.datetime | None
    counters: Mapping[str, MetricCount]


def this_minute(connection: Connection) -> dt.datetime:
    """Read the beginning of the present minute."""
    found: dt.datetime = connection.execute(sa.select(_THIS_MINUTE)).scalar_one()
    return found


def has_sample(connection: Connection, kinds: Collection[MetricKind]) -> bool:
    """Whether series of these kinds have a sample of the present minute."""
    statement = sa.select(METRIC_SERIES.c.series_id).where(
        METRIC_SERIES.c.kind.in_([kind.value for kind in kinds]),
        METRIC_SERIES.c.sampled_at >= _THIS_MINUTE,
    )
    return connection.execute(statement.limit(1)).first() is not None


def lock_series(
    connection: Connection, readings: Iterable[MetricReading]
) -> dict[tuple[MetricKind, str, str], MetricSeriesRow]:
    """Lock the series of readings, by kind, branch and subject; create those that are missing."""
    keys = sorted({(one.kind.value, one.branch, one.subject) for one in readings})
    found = _locked(connection, keys)
    missing = [key for key in keys if key not in found]
    if missing:
        connection.execute(
            insert(METRIC_SERIES)
            .values([dict(zip(_KEY, key, strict=True)) for key in missing])
            .on_conflict_do_nothing(index_elements=_KEY)
        )
        found |= _locked(connection, missing)
    return {
        (MetricKind(kind), branch, subject): row for (kind, branch, subject), row in found.items()
    }


def _locked(
    connection: Connection, keys: Sequence[tuple[str, str, str]]
) -> dict[tuple[str, str, str], MetricSeriesRow]:
    columns = METRIC_SERIES.c
    statement = (
        sa.select(METRIC_SERIES)
        .where(sa.tuple_(columns.kind, columns.branch, columns.subject).in_(keys))
        .order_by(columns.kind, columns.branch, columns.subject)
        .with_for_update()
    )
    return {
        (row.kind, row.branch, row.subject): MetricSeriesRow(
            series_id=row.series_id,
            sampled_at=row.sampled_at,
            counters={
                name: MetricCount(of=one["of"], count=one["count"])
                for name, one in row.counters.items()
            },
        )
        for row in connection.execute(statement)
    }


def put_samples(
    connection: Connection, at: dt.datetime, minutes: int, samples: Mapping[int, Numbers]
) -> None:
    """Insert samples by series; one that exists stays as it is."""
    rows = sa.select(
        _GIVEN.c.series_id,
        sa.literal(minutes).label("minutes"),
        sa.literal(at, INSTANT).label("at"),
        sa.cast(_GIVEN.c.text, METRIC_SAMPLE.c.numbers.type).label("numbers"),
    )
    names = ["series_id", "minutes", "at", "numbers"]
    connection.execute(
        insert(METRIC_SAMPLE).from_select(names, rows).on_conflict_do_nothing(),
        _given({series_id: _array(numbers) for series_id, numbers in samples.items()}),
    )


def put_counters(
    connection: Connection, at: dt.datetime, counters: Mapping[int, Mapping[str, MetricCount]]
) -> None:
    """Store the counters of locked series, and when they were read."""
    connection.execute(
        sa.update(METRIC_SERIES)
        .where(METRIC_SERIES.c.series_id == _GIVEN.c.series_id)
        .values(counters=sa.cast(_GIVEN.c.text, JSONB), sampled_at=at),
        _given(
            {
                series_id: json.dumps({name: attrs.asdict(one) for name, one in found.items()})
                for series_id, found in counters.items()
            }
        ),
    )


def _given(texts: Mapping[int, str]) -> dict[str, object]:
    return {"series": [*texts], "texts": [*texts.values()]}


def _array(numbers: Numbers) -> str:
    """Render a sample as the text of an array of the database."""
    inside = ",".join("NULL" if number is None else repr(float(number)) for number in numbers)
    return f"{{{inside}}}"


def unfolded(
    connection: Connection, finer: int, coarser: int, until: dt.datetime
) -> dict[tuple[MetricKind, int], dict[dt.datetime, Numbers]]:
    """Read the samples of a resolution that the next coarser one does not have yet, by series.

    Args:
        connection: The connection.
        finer: The minutes of the resolution.
        coarser: Those of the next one.
        until: The end of the newest bucket of it that is folded.
    """
    samples = METRIC_SAMPLE.c
    newest = connection.execute(
        sa.select(sa.func.max(samples.at)).where(samples.minutes == coarser)
    ).scalar_one()
    statement = (
        sa.select(METRIC_SERIES.c.kind, samples.series_id, samples.at, samples.numbers)
        .join(METRIC_SERIES, METRIC_SERIES.c.series_id == samples.series_id)
        .where(samples.minutes == finer, samples.at < until)
    )
    if newest is not None:
        statement = statement.where(samples.at >= newest + dt.timedelta(minutes=coarser))
    found: dict[tuple[MetricKind, int], dict[dt.datetime, Numbers]] = {}
    for row in connection.execute(statement):
        series = found.setdefault((MetricKind(row.kind), row.series_id), {})
        series[row.at] = tuple(row.numbers)
    return found


def delete_samples(connection: Connection, kept: Mapping[int, dt.timedelta]) -> int:
    """Delete samples that are older than what is kept of their resolution; return how many.

    A series without samples is deleted when it has had none for a day.
    """
    samples = METRIC_SAMPLE.c
    deleted = 0
    for minutes, age in kept.items():
        old = sa.delete(METRIC_SAMPLE).where(samples.minutes == minutes, samples.at < NOW - age)
        deleted += connection.execute(old).rowcount
    has_samples = sa.exists().where(samples.series_id == METRIC_SERIES.c.series_id)
    connection.execute(
        sa.delete(METRIC_SERIES).where(
            METRIC_SERIES.c.sampled_at < NOW - dt.timedelta(days=1), sa.not_(has_samples)
        )
    )
    return deleted


def samples_of(
    connection: Connection,
    kind: MetricKind,
    since: Mapping[int, dt.datetime],
    *,
    branch: str,
    subjects: Collection[str] | None,
) -> dict[int, dict[dt.datetime, Numbers]]:
    """Read samples by resolution, one for all series together.

    Args:
        connection: The connection.
        kind: The kind of the series.
        since: From which bucket on, by the minutes of the resolution.
        branch: The branch of the series; empty for series without one.
        subjects: Their subjects; None for all.
    """
    samples, series = METRIC_SAMPLE.c, METRIC_SERIES.c
    numbers = [
        _of_series(measure.of_series, sa.cast(samples.numbers[place], sa.Double))
        for place, measure in enumerate(MEASURES[kind], start=1)
    ]
    statement = (
        sa.select(samples.minutes, samples.at, *numbers)
        .join(METRIC_SERIES, series.series_id == samples.series_id)
        .where(
            series.kind == kind.value,
            series.branch == branch,
            sa.or_(
                *(
                    sa.and_(samples.minutes == minutes, samples.at >= at)
                    for minutes, at in since.items()
                )
            ),
        )
        .group_by(samples.minutes, samples.at)
    )
    if subjects is not None:
        statement = statement.where(series.subject.in_(sorted(subjects)))
    found: dict[int, dict[dt.datetime, Numbers]] = {}
    for minutes, at, *given in connection.execute(statement):
        found.setdefault(minutes, {})[at] = tuple(given)
    return found


def _of_series(fold: Fold, number: sa.ColumnElement[float]) -> sa.ColumnElement[float]:
    return sa.func.sum(number) if fold is Fold.SUM else sa.func.max(number)

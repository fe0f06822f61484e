"""Sources: the places that rows of a dataset come from."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar

import attrs

from narthex._analysis.checks.sources import rule_errors
from narthex._authoring.durations import read_duration
from narthex._authoring.error_collection import Reader, report
from narthex._authoring.source_locations import author_origin
from narthex._base.origin import Origin
from narthex._base.times import to_micros
from narthex._connectors.registry import Kind, kind_of, kinds
from narthex._ir.entities import (
    Cdc,
    Connector,
    Preproc,
    Sample,
    Source,
    Where,
    WhereByCode,
)
from narthex._ir.schema import Schema
from narthex._sdk.annotations import name_of
from narthex._sdk.connectors.preprocs import read_preproc, read_sample, read_where
from narthex._sdk.datasets.datasets import Dataset, declared, later_on
from narthex._sdk.declare.env import Env, parse_env
from narthex.errors import ConnectorInvalid, DefinitionError, SourceInvalid

_T = TypeVar("_T")


@attrs.frozen(kw_only=True)
class _SourceCall:
    """The arguments of `@source` as they were written."""

    conn: object
    disorder: object
    cdc: object
    every: object
    since: object
    until: object
    bounded: object
    idleness: object
    preproc: Mapping[str, object]
    where: object
    env: Env
    sample: object
    origin: Origin


def source(  # noqa: PLR0913, PLR0917 (Fennel's signature)
    conn: object,
    disorder: str,
    cdc: str,
    every: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    env: Env = None,
    preproc: Mapping[str, object] | None = None,
    bounded: bool = False,
    idleness: str | None = None,
    where: object = None,
    sample: object = None,
) -> Callable[[_T], _T]:
    """Declare a source of rows of a dataset; put it above `@dataset`, repeated for each source.

    Args:
        conn: An endpoint, a topic, files or a table, such as `Webhook("w").endpoint("orders")`.
        disorder: The greatest expected delay of a row; it never changes a result.
        cdc: `append` for keyless datasets; for keyed ones `upsert`, `debezium` (envelopes of
            Debezium) or `native` (the change log of a Delta or Hudi table).
        every: How often to look for new files or rows; not for what arrives as a stream.
        since: Rows of earlier instants are left out.
        until: Rows from this instant on are left out.
        env: The envs that include the source.
        preproc: Fields that are constants, raw columns of other names or members of them,
            expressions, or functions of a frame.
        bounded: Whether the files are all there, so that they are read once; for files only.
        idleness: After that long without a row, a partition of the source, or a source that has
            had no row yet, no longer holds the watermark of the dataset back. Without it, it does.
        where: Rows for which this expression, or function of a frame, is false or null are left
            out.
        sample: The share of rows to take, or a `Sample` that names the fields to draw by.

    Raises:
        DefinitionErrors: All errors of the call, together.
    """
    call = _SourceCall(
        conn=conn,
        disorder=disorder,
        cdc=cdc,
        every=every,
        since=since,
        until=until,
        bounded=bounded,
        idleness=idleness,
        preproc=preproc or {},
        where=where,
        env=env,
        sample=sample,
        origin=author_origin(),
    )

    def read(to: Dataset) -> Sequence[DefinitionError]:
        known = declared(to)
        built, errors = _build(call, known.name, None if known.broken else known.schema)
        if built is not None:
            known.sources = (built, *known.sources)
        return errors

    def add(to: _T) -> _T:
        if isinstance(to, Dataset):
            report(read(to))
        elif not later_on(to, read):
            raise SourceInvalid("place `@source` above `@dataset`", origin=call.origin)
        return to

    return add


@attrs.frozen(kw_only=True)
class _OnTheWay:
    """The processing of rows on their way in."""

    preproc: tuple[tuple[str, Preproc], ...] = ()
    where: Where | WhereByCode | None = None
    sample: Sample | None = None


def _build(
    call: _SourceCall, dataset: str, schema: Schema | None
) -> tuple[Source | None, tuple[DefinitionError, ...]]:
    reader = Reader()
    connector = reader.read(lambda: _connector(call.conn, call.origin))
    disorder = reader.read(
        lambda: read_duration(call.disorder, origin=call.origin, what="`disorder`")
    )
    cdc = reader.read(lambda: read_cdc(call.cdc, call.origin))
    since = reader.read(lambda: read_instant(call.since, "since", call.origin))
    until = reader.read(lambda: read_instant(call.until, "until", call.origin))
    every = reader.read(lambda: optional_duration(call.every, "`every`", call.origin))
    idleness = reader.read(lambda: optional_duration(call.idleness, "`idleness`", call.origin))
    env = reader.read(lambda: parse_env(call.env, origin=call.origin))
    way = _OnTheWay() if schema is None else _on_the_way(call, dataset, schema, reader)
    if connector is None or disorder is None or cdc is None:
        return None, tuple(reader.errors)
    built = Source(
        connector=connector,
        disorder_us=disorder,
        cdc=cdc,
        every_us=every,
        since_us=since,
        until_us=until,
        bounded=bool(call.bounded),
        idleness_us=idleness,
        preproc=way.preproc,
        where=way.where,
        env=env or (),
        origin=call.origin,
        sample=way.sample,
    )
    if call.idleness is None or idleness is not None:
        reader.errors += rule_errors(built, schema)
    return built, tuple(reader.errors)


def _on_the_way(call: _SourceCall, dataset: str, schema: Schema, reader: Reader) -> _OnTheWay:
    preproc: list[tuple[str, Preproc]] = []
    for field in call.preproc:
        made = reader.read(partial(read_preproc, field, call.preproc, dataset, schema, call.origin))
        if made is not None:
            preproc.append((field, made))
    return _OnTheWay(
        preproc=tuple(preproc),
        where=reader.read(lambda: read_where(call.where, schema, call.origin)),
        sample=reader.read(lambda: read_sample(call.sample, schema, call.preproc, call.origin)),
    )


def _connector(conn: object, origin: Origin) -> Connector:
    if isinstance(conn, Connector) and kind_of(conn).source is not None:
        return conn
    kind, _ = _begun(conn)
    if isinstance(conn, Connector):
        kind = kind_of(conn)
    if kind is not None and kind.source is None:
        raise ConnectorInvalid(
            f"{kind.title} can only be written to",
            origin=origin,
            hint="let rows be pushed to a `Webhook`",
        )
    raise no_connector(conn, "`@source`", origin)


def _begun(conn: object) -> tuple[Kind | None, str]:
    """Return the kind of an incomplete connector, and the method that completes it."""
    for kind in kinds():
        for declares, method in kind.declared_by:
            if isinstance(conn, declares):
                return kind, method
    return None, ""


def no_connector(conn: object, where: str, origin: Origin) -> DefinitionError:
    """Return the error of an incomplete connector."""
    _, part = _begun(conn)
    if not part:
        return ConnectorInvalid(f"{where} got `{conn!r}`; expected a connector", origin=origin)
    name = type(conn).__name__
    return ConnectorInvalid(
        f"`{name}` has no `{part}`",
        origin=origin,
        hint=f"write `{name}(…).{part}(…)`",
    )


def read_cdc(cdc: object, origin: Origin) -> Cdc:
    """Read how rows change a dataset.

    Raises:
        SourceInvalid: The value is unknown.
    """
    for known in Cdc:
        if known.value == cdc:
            return known
    names = ", ".join(f"`{known.value}`" for known in Cdc)
    raise SourceInvalid(f"`cdc` got `{cdc!r}`; expected one of {names}", origin=origin)


def read_instant(instant: object, what: str, origin: Origin) -> int | None:
    """Read an optional instant, as microseconds.

    Raises:
        SourceInvalid: It is not a datetime.
    """
    if instant is None:
        return None
    if not isinstance(instant, datetime):
        raise SourceInvalid(
            f"`{what}` is of type `{name_of(type(instant))}`; expected a datetime", origin=origin
        )
    return int(to_micros(instant))


def optional_duration(duration: object, what: str, origin: Origin) -> int | None:
    """Read an optional duration, as microseconds.

    Raises:
        DurationInvalid: It is not a duration.
    """
    return None if duration is None else read_duration(duration, origin=origin, what=what)

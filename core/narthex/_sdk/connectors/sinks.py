"""Sinks: the targets that rows of a dataset are written to."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import attrs

from narthex._analysis.checks.sinks import no_sink, sink_rule_errors
from narthex._authoring.error_collection import Reader, report
from narthex._authoring.source_locations import author_origin
from narthex._base.origin import Origin
from narthex._connectors.registry import kind_of
from narthex._ir.entities import Connector, Sink, Snapshots
from narthex._sdk.connectors.sources import no_connector, optional_duration, read_cdc, read_instant
from narthex._sdk.datasets.datasets import Dataset, declared, later_on
from narthex._sdk.declare.env import Env, parse_env
from narthex.errors import DefinitionError, SinkInvalid

_T = TypeVar("_T")


@attrs.frozen
class SnapshotData:
    """A sink that writes the whole dataset each time.

    Attributes:
        marker: The name of the file that marks a snapshot as complete.
        num_retain: The number of snapshots to keep.
    """

    marker: str
    num_retain: int


@attrs.frozen(kw_only=True)
class _SinkCall:
    """The arguments of `@sink` as they were written."""

    conn: object
    cdc: object
    every: object
    how: object
    renames: Mapping[str, str]
    since: object
    until: object
    env: Env
    origin: Origin


def sink(  # noqa: PLR0913, PLR0917 (Fennel's signature)
    conn: object,
    cdc: str | None = None,
    every: str | None = None,
    how: str | SnapshotData | None = None,
    renames: Mapping[str, str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    env: Env = None,
) -> Callable[[_T], _T]:
    """Declare a target that rows of a computed dataset are written to; put it above `@dataset`.

    Args:
        conn: A topic, an HTTP path, files in S3 as `delta`, or a table of Postgres or
            Snowflake.
        cdc: `debezium` for topics and HTTP; omitted for files and tables.
        every: How often files and tables are written.
        how: `incremental` writes the changes; topics, files and tables accept only this.
        renames: The names of fields in the target.
        since: Rows of earlier instants are left out.
        until: Rows from this instant on are left out.
        env: The envs that include the sink.

    Raises:
        DefinitionErrors: All errors of the call, together.
    """
    call = _SinkCall(
        conn=conn,
        cdc=cdc,
        every=every,
        how=how,
        renames=renames or {},
        since=since,
        until=until,
        env=env,
        origin=author_origin(),
    )

    def read(to: Dataset) -> Sequence[DefinitionError]:
        known = declared(to)
        built, errors = _build(call)
        if built is not None:
            known.sinks = (built, *known.sinks)
            if not known.broken:
                errors += tuple(sink_rule_errors(built, known.schema))
        return errors

    def add(to: _T) -> _T:
        if isinstance(to, Dataset):
            report(read(to))
        elif not later_on(to, read):
            raise SinkInvalid("place `@sink` above `@dataset`", origin=call.origin)
        return to

    return add


def _build(call: _SinkCall) -> tuple[Sink | None, tuple[DefinitionError, ...]]:
    reader = Reader()
    origin = call.origin
    target = reader.read(lambda: _target(call.conn, origin))
    cdc = None if call.cdc is None else reader.read(lambda: read_cdc(call.cdc, origin))
    every = reader.read(lambda: optional_duration(call.every, "`every`", origin))
    how = reader.read(lambda: _style(call.how, origin))
    since = reader.read(lambda: read_instant(call.since, "since", origin))
    until = reader.read(lambda: read_instant(call.until, "until", origin))
    env = reader.read(lambda: parse_env(call.env, origin=origin))
    if target is None or reader.errors:
        return None, tuple(reader.errors)
    built = Sink(
        target=target,
        cdc=cdc,
        every_us=every,
        how=how,
        renames=tuple(sorted(call.renames.items())),
        since_us=since,
        until_us=until,
        env=env or (),
        origin=origin,
    )
    return built, ()


def _target(conn: object, origin: Origin) -> Connector:
    if not isinstance(conn, Connector):
        raise no_connector(conn, "`@sink`", origin)
    if kind_of(conn).sink is None:
        raise SinkInvalid(no_sink(conn), origin=origin)
    return conn


def _style(how: object, origin: Origin) -> str | Snapshots | None:
    match how:
        case None | "incremental" | "recreate":
            return how
        case SnapshotData():
            return Snapshots(marker=how.marker, num_retain=how.num_retain)
        case _:
            raise SinkInvalid(
                f"`how` got `{how!r}`; expected `incremental`, `recreate` or `SnapshotData(…)`",
                origin=origin,
            )

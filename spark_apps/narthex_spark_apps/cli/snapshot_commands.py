"""`narthex snapshots`: list, take and restore snapshots of indexes and job states."""

import datetime as dt
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import attrs
import typer

from narthex.settings import NotInstalledError, load_settings
from narthex_spark_apps.storage.file_store import UnknownStoreError
from narthex_spark_apps.storage.snapshots import (
    NoSnapshotsError,
    names_here,
    place_of,
    restore_snapshot,
    snapshots_of,
    take_snapshot,
)
from narthex_stores import (
    EnvironmentMissingError,
    NoSuchSnapshotError,
    SnapshotView,
    StoreError,
)

_YOURS, _OURS = 1, 3

snapshots = typer.Typer(
    name="snapshots",
    help="List, take and restore consistent copies of indexes and job states.",
    no_args_is_help=True,
)
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per line on stdout.")]


@snapshots.command("list")
def list_snapshots(
    name: Annotated[
        str | None, typer.Argument(help="The name of an index or a checkpoint [all].")
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List snapshots, for each name the latest first."""
    with _reporting_errors():
        for view in snapshots_of(load_settings()).list(name):
            _print(view, as_json=as_json)


@snapshots.command()
def take(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="The names of indexes or checkpoints [all on this machine]."),
    ] = None,
    *,
    changed: Annotated[
        bool,
        typer.Option("--changed", help="Skip those without changes since their last snapshot."),
    ] = False,
    keep: Annotated[
        int | None,
        typer.Option(help="The number of snapshots to keep of each [from the settings].", min=1),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Take a snapshot of each index and state now; the writers keep running."""
    with _reporting_errors():
        settings = load_settings()
        store = snapshots_of(settings)
        wanted = names or names_here(settings)
        for number, name in enumerate(wanted, start=1):
            typer.echo(f"{number} of {len(wanted)}: {name}", err=True)
            view = take_snapshot(
                store,
                name,
                place_of(settings, name),
                at=dt.datetime.now(tz=dt.UTC),
                keep=settings.snapshots_kept if keep is None else keep,
                only_changed=changed,
            )
            if view is not None:
                _print(view, as_json=as_json)


@snapshots.command()
def restore(
    names: Annotated[list[str], typer.Argument(help="The names of indexes or checkpoints.")],
    *,
    snapshot: Annotated[
        str | None, typer.Option(help="The id of the snapshot [the latest].")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Move an existing index or state out of the way.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Restore indexes and states; their writers continue from the offsets in the snapshot.

    The writer and the readers of an index open it within a second, a job with its next row.
    """
    with _reporting_errors():
        settings = load_settings()
        store = snapshots_of(settings)
        for name in names:
            view = store.find(name, snapshot)
            target = place_of(settings, name)
            if target.exists() and not replace:
                raise StandsError(f"`{target}` exists already; pass `--replace` to replace it")
            _move_away(target)
            restore_snapshot(store, view, target)
            _print(view, as_json=as_json)


class StandsError(RuntimeError):
    """The target of a restore already exists."""


def _move_away(target: Path) -> None:
    if target.exists():
        now = dt.datetime.now(tz=dt.UTC).strftime("%Y%m%dT%H%M%S.%f")
        target.rename(target.with_name(f".replaced-{target.name}-{now}"))


def _print(view: SnapshotView, *, as_json: bool) -> None:
    if as_json:
        plain = attrs.asdict(view, filter=lambda field, _: field.name != "files")
        typer.echo(json.dumps(plain | {"taken_at": view.taken_at.isoformat()}, sort_keys=True))
    else:
        typer.echo(f"{view.name}  {view.snapshot_id}  {view.size / 1e6:.1f} MB")


@contextmanager
def _reporting_errors() -> Iterator[None]:
    """Print a failure in one sentence, and exit with 1 for a user error, 3 for a platform error."""
    try:
        yield
    except (
        NotInstalledError,
        NoSnapshotsError,
        UnknownStoreError,
        NoSuchSnapshotError,
        EnvironmentMissingError,
        StandsError,
    ) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(_YOURS) from None
    except StoreError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(_OURS) from None

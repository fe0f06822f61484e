"""Runs of `narthex snapshots`: snapshots are listed, taken and restored."""

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import typer

from narthex._base import Json
from narthex.cli.exit_codes import ExitCode
from narthex.cli.output import print_json_line, print_line, print_table, tell
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


def listed(name: str | None, *, as_json: bool) -> None:
    """Print the snapshots, for each name the latest first."""
    with _reporting_errors():
        found = snapshots_of(load_settings()).list(name)
        if as_json:
            for view in found:
                print_json_line(_plain(view))
        else:
            rows = [[one.name, one.snapshot_id, f"{one.size / 1e6:.1f} MB"] for one in found]
            print_table(("name", "snapshot", "size"), rows, empty="there is no snapshot")


def take(names: list[str] | None, *, changed: bool, keep: int | None, as_json: bool) -> None:
    """Take and print a snapshot of each index and state."""
    with _reporting_errors():
        settings = load_settings()
        store = snapshots_of(settings)
        wanted = names or names_here(settings)
        for number, name in enumerate(wanted, start=1):
            tell(f"{number} of {len(wanted)}: {name}")
            try:
                view = take_snapshot(
                    store,
                    name,
                    place_of(settings, name),
                    at=dt.datetime.now(tz=dt.UTC),
                    keep=settings.snapshots_kept if keep is None else keep,
                    only_changed=changed,
                )
            except EnvironmentMissingError:
                if names:
                    raise
                tell(f"{name} was destroyed meanwhile, or its job has not begun")
                continue
            if view is not None:
                _print(view, as_json=as_json)


def restore(names: list[str], *, snapshot: str | None, replace: bool, as_json: bool) -> None:
    """Restore and print a snapshot of each index and state."""
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
        print_json_line(_plain(view))
    else:
        print_line(f"{view.name}  {view.snapshot_id}  {view.size / 1e6:.1f} MB")


def _plain(view: SnapshotView) -> dict[str, Json]:
    plain: dict[str, Json] = attrs.asdict(view, filter=lambda field, _: field.name != "files")
    return dict(sorted({**plain, "taken_at": view.taken_at.isoformat()}.items()))


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
        tell(str(error))
        raise typer.Exit(ExitCode.YOUR_MISTAKE) from None
    except StoreError as error:
        tell(str(error))
        raise typer.Exit(ExitCode.OUR_FAULT) from None

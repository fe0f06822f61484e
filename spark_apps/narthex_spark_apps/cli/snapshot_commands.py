"""`narthex snapshots`: list, take and restore snapshots of indexes and job states."""

from typing import Annotated

import typer

from narthex.cli.output import AsJsonLines

snapshots = typer.Typer(
    name="snapshots",
    help="List, take and restore consistent copies of indexes and job states.",
    no_args_is_help=True,
)


@snapshots.command("list")
def list_snapshots(
    name: Annotated[
        str | None, typer.Argument(help="The name of an index or a checkpoint [all].")
    ] = None,
    *,
    as_json: AsJsonLines = False,
) -> None:
    """List snapshots, for each name the latest first."""
    from narthex_spark_apps.cli import snapshot_runs  # noqa: PLC0415 - not for the help

    snapshot_runs.listed(name, as_json=as_json)


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
    as_json: AsJsonLines = False,
) -> None:
    """Take a snapshot of each index and state now; the writers keep running."""
    from narthex_spark_apps.cli import snapshot_runs  # noqa: PLC0415 - not for the help

    snapshot_runs.take(names, changed=changed, keep=keep, as_json=as_json)


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
    as_json: AsJsonLines = False,
) -> None:
    """Restore indexes and states; their writers continue from the offsets in the snapshot.

    The writer and the readers of an index open it within a second, a job with its next row.
    """
    from narthex_spark_apps.cli import snapshot_runs  # noqa: PLC0415 - not for the help

    snapshot_runs.restore(names, snapshot=snapshot, replace=replace, as_json=as_json)

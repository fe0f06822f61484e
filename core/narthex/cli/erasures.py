"""The commands `narthex erase` and `narthex erasures list|show|verify`."""

import csv
import json
from pathlib import Path
from typing import Annotated, Final

import typer

from narthex._base.records import Json
from narthex.cli.exit_codes import ExitCode
from narthex.cli.options import Branch, Token, Url, connect, connect_with_frames
from narthex.cli.output import AsJson, print_facts, print_json, print_line, print_table, tell
from narthex.errors import ArgumentsUnfit

_LISTED: Final = ("erasure_id", "state", "dataset", "erased_keys", "requested_at", "waits_for")

Key = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="NAME=VALUE", help="The value of an erase key; repeatable."),
]

erasures_app: Final = typer.Typer(
    name="erasures",
    help="List and show erasures, and verify their certificates.",
    no_args_is_help=True,
)


def erase(  # noqa: PLR0913 (options)
    dataset: Annotated[str, typer.Argument(help="The name of the dataset.")],
    *,
    key: Key = None,
    file: Annotated[
        Path | None, typer.Option(help="A CSV file with a column for each erase key.")
    ] = None,
    leave_sink: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TARGET",
            help="The target of a sink with the rows that stays as it is; repeatable.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Erase without asking.")] = False,
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """Erase the rows of keys from a dataset, and from all that is derived from them."""
    from narthex._formats.pandas.frames import frame_of_rows  # noqa: PLC0415 - it loads pandas

    rows = _rows(key or [], file)
    if not yes:
        keys = f"{len(rows)} key" if len(rows) == 1 else f"{len(rows)} keys"
        question = f"erase the rows of {keys} of {dataset}? They cannot be restored"
        typer.confirm(question, abort=True, err=True)
    client = connect_with_frames(url, token, branch)
    made = client.erase(dataset, frame_of_rows(rows), leave_sinks=leave_sink or ())
    if as_json:
        print_json(made.body)
        return
    print_line(str(made.body.get("erasure_id")))
    tell("the keys are blocked; `narthex erasures show` has the certificate at the end")


@erasures_app.command("list")
def listed(*, url: Url = "", token: Token = "", as_json: AsJson = False) -> None:
    """List erasures, the newest first."""
    found = connect(url, token).erasures()
    if as_json:
        print_json([*found])
        return
    print_table(
        [name.replace("_", " ") for name in _LISTED],
        [[one.get(name) for name in _LISTED] for one in found],
        empty="nothing was erased",
    )


@erasures_app.command("show")
def show(
    erasure_id: Annotated[str, typer.Argument(help="The id of the erasure.")],
    *,
    url: Url = "",
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Show one erasure; with `--json`, as a certificate that `narthex erasures verify` reads."""
    found = connect(url, token).erasure(erasure_id)
    if as_json:
        print_json(found)
        return
    certificate = found.get("certificate")
    print_facts((name, value) for name, value in found.items() if name != "certificate")
    if isinstance(certificate, dict):
        print_facts([("certificate", ""), *certificate.items()])


@erasures_app.command("verify")
def verify(
    certificate: Annotated[
        Path, typer.Argument(help="A file with the output of `narthex erasures show ID --json`.")
    ],
    *,
    key: Key = None,
    url: Url = "",
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Verify the signature of a certificate, and whether it covers a key.

    The exit status is 0, or 1 if the certificate is not the installation's or does not cover it.
    """
    try:
        stored = json.loads(certificate.read_text(encoding="utf-8"))
        content, signature = dict(stored["certificate"]), str(stored["signature"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ArgumentsUnfit(
            f"`{certificate}` has no certificate: {type(error).__name__}",
            hint="store the output of `narthex erasures show ID --json` in it",
        ) from None
    named = _key(key or [])
    found = connect(url, token).verify_erasure(content, signature, key=named or None)
    if as_json:
        print_json(found)
    elif found.get("is_valid"):
        print_line("the installation has signed the certificate")
        if named:
            covered = "covers" if found.get("covers") else "does not cover"
            print_line(f"it {covered} the key")
    else:
        print_line(f"not valid: {found.get('why')}")
    if not found.get("is_valid") or found.get("covers") is False:
        raise typer.Exit(ExitCode.FOUND)


def _rows(keys: list[str], file: Path | None) -> list[dict[str, Json]]:
    if bool(keys) == (file is not None):
        raise typer.BadParameter("pass either --key or --file")
    if file is None:
        return [_key(keys)]
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            found = [
                {name: _value(text) for name, text in one.items()} for one in csv.DictReader(lines)
            ]
    except (OSError, ValueError) as error:
        raise ArgumentsUnfit(f"`{file}` cannot be read: {error}") from None
    if not found:
        raise ArgumentsUnfit(f"`{file}` has no rows")
    return found


def _key(keys: list[str]) -> dict[str, Json]:
    pairs = [one.partition("=") for one in keys]
    if any(not separator for _, separator, _ in pairs):
        raise typer.BadParameter("write a key as NAME=VALUE")
    return {name: _value(text) for name, _, text in pairs}


def _value(text: str | None) -> Json:
    return text

"""`narthex keys`: commands for the operator, on the machine that has the files of the keys."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Final

import attrs
import typer

from narthex._base import Json
from narthex.cli.exit_codes import ExitCode
from narthex.cli.output import AsJson, print_done, print_json, print_table, tell
from narthex.errors import ArgumentsUnfit
from narthex.settings import NotInstalledError, load_settings

if TYPE_CHECKING:
    from narthex_server.security.key_rotation import Keys, KeyUse, Rotation

keys_app: Final = typer.Typer(
    name="keys",
    help="List, rotate and retire the keys of an installation, on the server's machine.",
    no_args_is_help=True,
)

USES: Final = {
    "signing": "signs bundles, commits, assets, tokens, queries and the control log",
    "secrets": "seals secrets, connections, sessions of browsers and keys that are being erased",
}


class Purpose(Enum):
    """The keys that can be rotated."""

    SIGNING = "signing"
    SECRETS = "secrets"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(keys_app)


@keys_app.command("list")
def listed(*, as_json: AsJson = False) -> None:
    """List the keys with their ids, ages and uses, and the rows that depend on each."""
    with _explained():
        found = _keys().all()
    if as_json:
        print_json([attrs.asdict(key) for key in found])
        return
    columns = ("purpose", "key", "state", "since", "rows")
    print_table(columns, [_line(key) for key in found], empty="there is no key")
    tell("digests of erased keys are made with a key in `secrets.key` that never changes")


@keys_app.command("rotate")
def rotate(
    purpose: Annotated[Purpose, typer.Argument(help="The key to replace.")],
    *,
    announce: Annotated[
        bool,
        typer.Option(
            "--announce",
            help="Only make the key; copy the files to the other machines, then run it again.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Replace a key, and sign or seal again what depends on the old one.

    A rotation that was interrupted is completed by running the command again. The old key is
    accepted until it is retired.
    """
    with _explained():
        keys = _keys()
        act = keys.rotate_signing if purpose is Purpose.SIGNING else keys.rotate_secrets
        done = act(announce=announce)
    if as_json:
        print_json(attrs.asdict(done))
    else:
        _report(done, purpose)
    if done.refused:
        tell(f"not signed again, because they do not match: {', '.join(done.refused[:20])}")
        raise typer.Exit(ExitCode.FOUND)


@keys_app.command("retire")
def retire(
    key_id: Annotated[str, typer.Argument(help="The id of an old key, from `narthex keys list`.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Remove an old key, once nothing depends on it."""
    with _explained():
        _keys().retire(key_id)
    print_done({"retired": key_id}, f"key {key_id} is retired", as_json=as_json)


def _keys() -> "Keys":
    from narthex_server.security.key_rotation import Keys  # noqa: PLC0415 - it loads all stores

    return Keys(settings=load_settings())


@contextmanager
def _explained() -> Iterator[None]:
    """Turn what keeps a command from running into an error of the command line."""
    from narthex_ledger import KeyFileError, LedgerError, NotOpenedError  # noqa: PLC0415

    try:
        yield
    except (NotInstalledError, KeyFileError, NotOpenedError) as error:
        raise ArgumentsUnfit(
            str(error), hint="`narthex keys list` shows the keys of this machine"
        ) from None
    except LedgerError as error:
        raise ArgumentsUnfit(
            f"the ledger does not answer: {error}", hint="start it, and run the command again"
        ) from None


def _line(key: "KeyUse") -> list[Json]:
    rows = ", ".join(f"{count} of {kind}" for kind, count in key.rows.items()) or "no rows"
    return [key.purpose, key.key_id, key.state, key.since or "?", rows]


def _report(done: "Rotation", purpose: Purpose) -> None:
    if done.is_announced:
        tell(
            f"key {done.key_id} is announced; copy the files of the keys to the other machines, "
            f"then run `narthex keys rotate {purpose.value}`"
        )
        return
    rows = ", ".join(f"{count} of {kind}" for kind, count in done.renewed.items()) or "nothing"
    tell(f"key {done.key_id} is current, and {USES[purpose.value]}; renewed: {rows}")
    for old in done.old:
        tell(f"retire the old key with `narthex keys retire {old}`, after a minute at least")

"""Commands for the connections that definitions name: `narthex connection set|list|test|delete`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from narthex._base.records import Json
from narthex.cli.exit_codes import ExitCode
from narthex.cli.options import Branch, Token, Url, connect
from narthex.cli.output import AsJson, print_done, print_json, print_line, print_table, tell
from narthex.errors import ArgumentsUnfit

if TYPE_CHECKING:
    from narthex._connectors.stored_connections import Argument

Name = Annotated[str, typer.Argument(help='The name in definitions, `Postgres.get("name")`.')]
Kind = Annotated[str, typer.Argument(help="The class in definitions, such as `Postgres`.")]
Parameters = Annotated[
    list[str] | None, typer.Argument(help="Its parameters, `host=db.example port=5432`.")
]
Secrets = Annotated[
    list[str] | None,
    typer.Option("--secret", help="A credential, `password=NAME-OF-SECRET`; repeat it for each."),
]
Branches = Annotated[
    list[str] | None,
    typer.Option("--for", help="A pattern of the branches that may name it [all]; repeat it."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    connection = typer.Typer(
        name="connection",
        help="Manage the connections that definitions name, which the ledger stores sealed.",
        no_args_is_help=True,
    )
    connection.command("set")(store)
    connection.command("list")(connections)
    connection.command("test")(try_connection)
    connection.command("delete")(forget)
    app.add_typer(connection)


def store(  # noqa: PLR0913, PLR0917 (the options of a command)
    name: Name,
    kind: Kind,
    parameters: Parameters = None,
    secret: Secrets = None,
    branches: Branches = None,
    url: Url = "",
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Store a connection, or replace the one of that name; later commits use it.

    Credentials are secrets: `narthex secret set` stores their values.
    """
    from narthex._connectors.stored_connections import (  # noqa: PLC0415 - it loads all kinds
        ConnectionInvalidError,
        parameters_of,
    )

    try:
        types, _ = parameters_of(kind)
    except ConnectionInvalidError as error:
        raise ArgumentsUnfit(str(error)) from None
    arguments = {key: _typed(key, text, types) for key, text in _pairs(parameters or []).items()}
    client = connect(url, token)
    done = client.set_connection(
        name, kind, arguments, secrets=_pairs(secret or []), branches=branches or ["*"]
    )
    message = f"stored connection `{name}`; code names it `{kind}.get({name!r})`"
    print_done(done.body, message, as_json=as_json)


def connections(*, url: Url = "", token: Token = "", as_json: AsJson = False) -> None:
    """List the connections, with the names of their secrets."""
    found = connect(url, token).list_connections()
    if as_json:
        print_json([*found])
        return
    rows = [[one["name"], one["kind"], _described(one), one["branches"]] for one in found]
    print_table(("name", "kind", "parameters", "branches"), rows, empty="there is no connection")


def try_connection(
    name: Name,
    *,
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """Check a connection against the policy of a branch, and connect to its servers.

    No credentials are sent. Exits with 1 if definitions of the branch cannot use it.
    """
    answer = connect(url, token, branch).test_connection(name).body
    faults, reached = answer["faults"], answer["reached"]
    if as_json:
        print_json({"faults": faults, "reached": reached})
    else:
        for server in reached if isinstance(reached, list) else ():
            print_line(f"{server} accepts connections")
        for fault in faults if isinstance(faults, list) else ():
            tell(str(fault))
    if faults:
        raise typer.Exit(ExitCode.FOUND)


def forget(name: Name, *, url: Url = "", token: Token = "", as_json: AsJson = False) -> None:
    """Delete a connection; datasets that were committed with it keep their sources."""
    done = connect(url, token).delete_connection(name).body
    print_done(done, f"deleted connection `{name}`", as_json=as_json)


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, is_pair, value = text.partition("=")
        if not is_pair or not key:
            raise ArgumentsUnfit(f"`{text}` is not a parameter; write `name=value`")
        pairs[key] = value
    return pairs


def _typed(key: str, text: str, types: dict[str, type]) -> "Argument":
    match types.get(key):
        case kind if kind is bool and text in {"true", "false"}:
            return text == "true"
        case kind if kind is int and text.isdecimal():
            return int(text)
        case _:
            return text


def _described(connection: dict[str, Json]) -> str:
    parts = {**_members(connection["arguments"]), **_members(connection["secrets"], "secret ")}
    return ", ".join(f"{key}={value}" for key, value in parts.items())


def _members(value: Json, prefix: str = "") -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {key: f"{prefix}{one}" for key, one in value.items()}

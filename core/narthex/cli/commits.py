"""Commands for authors: `narthex check`, `plan`, `commit`, `query`, `log` and more."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from narthex._base.plain_values import values_of
from narthex._base.records import Json
from narthex._base.times import render_instant
from narthex.cli import commit_history, connections, policies, secrets
from narthex.cli.alerts import alerts_app
from narthex.cli.branches import branch_app
from narthex.cli.control import control_log, token_app
from narthex.cli.diffs import diff
from narthex.cli.drift import drift_app
from narthex.cli.erasures import erase, erasures_app
from narthex.cli.error_reports import shown_errors
from narthex.cli.exit_codes import ExitCode
from narthex.cli.local import project_commands
from narthex.cli.local.login import login
from narthex.cli.local.shell import shell
from narthex.cli.offline import offline_app, training_app
from narthex.cli.options import Branch, Token, Url, connect, connect_with_frames
from narthex.cli.output import (
    AsJson,
    list_of,
    print_done,
    print_json,
    print_line,
    print_table,
    tell,
)
from narthex.cli.projects.project_file import definitions_file
from narthex.cli.rows import late, quarantine_app
from narthex.cli.usage.queries import queries
from narthex.cli.usage.unread import unread
from narthex.errors import ArgumentsUnfit, FileNotLoaded, raise_all

if TYPE_CHECKING:
    from narthex._server_calls.responses import Response
    from narthex.cli.projects.author_files import AuthorFile

File = Annotated[
    Path | None,
    typer.Argument(help="The file with the definitions [`file` of narthex.toml].", metavar="FILE"),
]
Env = Annotated[str, typer.Option(help="Use the definitions for this env.")]
Incremental = Annotated[
    bool, typer.Option(help="Keep deployed definitions that FILE does not contain.")
]

_MOST_WRONG = 20
"""How many lines of a file are named as wrong."""

_LEGAL = "valid, but the platform does not support it yet, so a commit refuses it:"


def register(app: typer.Typer) -> None:
    """Add the commands for authors."""
    project_commands.register(app)
    app.command("check")(check)
    app.command("plan")(plan)
    app.command("commit")(commit)
    commit_history.register(app)
    app.command("query")(query)
    app.command("shell")(shell)
    app.command("log")(log)
    secrets.register(app)
    connections.register(app)
    policies.register(app)
    app.command("control-log")(control_log)
    app.command("login")(login)
    app.add_typer(alerts_app)
    app.add_typer(branch_app)
    app.add_typer(token_app)
    app.add_typer(offline_app)
    app.add_typer(quarantine_app)
    app.command("late")(late)
    app.command("unread")(unread)
    app.command("queries")(queries)
    app.add_typer(training_app)
    app.add_typer(drift_app)
    app.command("diff")(diff)
    app.command("erase")(erase)
    app.add_typer(erasures_app)


def check(file: File = None, *, env: Env = "", as_json: AsJson = False) -> None:
    """Report all mistakes in FILE; send nothing anywhere.

    Valid definitions that the platform does not support yet are listed separately.
    """
    file = definitions_file(file)
    found = _loaded(file)
    errors = found.check(env or None)
    if not (errors or found.datasets or found.featuresets):
        raise FileNotLoaded(
            f"`{file}` declares and imports no dataset and no featureset",
            hint="name them, as in `from project.orders import Order`: `import project` does not",
        )
    waiting = () if errors else found.not_carried_out(env or None)
    if as_json:
        told = {"errors": errors, "not_carried_out": waiting}
        print_json({part: [dict(error.plain()) for error in of] for part, of in told.items()})
    elif errors:
        tell(shown_errors(errors))
    else:
        tell(f"{_counted(len(found.datasets), 'dataset')}, {_features(found.featuresets)}: sound")
        if waiting:
            tell(f"\n{_LEGAL}\n")
            tell("\n\n".join(error.render() for error in waiting))
    if errors:
        raise typer.Exit(ExitCode.FOUND)


def plan(  # noqa: PLR0913 (one parameter an option)
    file: File = None,
    *,
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    env: Env = "",
    incremental: Incremental = False,
    as_json: AsJson = False,
) -> None:
    """Show what a commit of FILE would create, share, backfill and release, and why.

    This changes nothing.
    """
    file = definitions_file(file)
    loaded = _loaded(file)
    raise_all(loaded.errors)
    answer = connect(url, token, branch).commit(
        "plan",
        loaded.datasets,
        loaded.featuresets,
        preview=True,
        env=env or None,
        incremental=incremental,
        tell=lambda line: None if as_json else print_line(line),
    )
    if as_json:
        print_json(answer.body.get("report"))


def commit(  # noqa: PLR0913 (one parameter an option)
    file: File = None,
    *,
    message: Annotated[
        str, typer.Option("-m", "--message", help="The purpose of the commit.")
    ] = "",
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    env: Env = "",
    incremental: Incremental = False,
    backfill: Annotated[
        bool, typer.Option(help="Fill new assets from history; without it, refuse if any need it.")
    ] = True,
    expect_plan: Annotated[
        str,
        typer.Option(help="Refuse a plan other than this `plan_sha256` of `narthex plan --json`."),
    ] = "",
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove what FILE does not declare without a question.")
    ] = False,
    wait: Annotated[bool, typer.Option(help="Wait until readers read the commit.")] = True,
    as_json: AsJson = False,
) -> None:
    """Commit the definitions in FILE and wait until they serve.

    If the branch has datasets or featuresets that FILE does not declare, the commit removes them,
    and the command asks first. Where it cannot ask, it needs `--yes`, or the plan that was shown.
    """
    file = definitions_file(file)
    loaded = _loaded(file)
    raise_all(loaded.errors)
    client = connect(url, token, branch)
    commit_of = partial(
        client.commit,
        message or f"commit of {file.name}",
        loaded.datasets,
        loaded.featuresets,
        env=env or None,
        incremental=incremental,
        backfill=backfill,
    )
    if not (yes or incremental or expect_plan):
        expect_plan = _agreed_plan(commit_of(preview=True, tell=lambda _: None), file, branch)
    answer = commit_of(expect_plan=expect_plan, confirm_empty=True, wait=wait)
    if as_json:
        print_json(answer.body)
    else:
        print_line(str(answer.body.get("commit_id", "")))


def query(  # noqa: PLR0913 (one parameter an option)
    outputs: Annotated[list[str], typer.Argument(help="Features or featuresets to compute.")],
    *,
    given: Annotated[
        list[str] | None, typer.Option("--with", help="An input, `Featureset.feature=value`.")
    ] = None,
    as_of: Annotated[str, typer.Option(help="An instant, RFC 3339 [now].")] = "",
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """Query features."""
    columns = {name: [value] for name, value in map(_given, given or [])}
    answers, read = connect(url, token, branch).query_columns(
        list(columns), outputs, columns, as_of=as_of or None, explain=True
    )
    found: dict[str, Json] = {name: values_of(cells) for name, cells in answers.items()}
    if as_json:
        print_json({"answers": found, "read": read})
        return
    rows = [[name, *list_of(cells)] for name, cells in found.items()]
    print_table(("feature", "value"), rows, empty="there is no answer")
    if isinstance(read, dict):
        tell(f"as of {_instant(read)}, read from commit {read.get('commit_id')}")


def log(  # noqa: PLR0913 (one parameter an option)
    webhook: Annotated[str, typer.Argument(help="The name of the webhook.")],
    endpoint: Annotated[str, typer.Argument(help="The endpoint of the webhook.")],
    *,
    rows: Annotated[
        Path | None, typer.Option(help="A file with one JSON object per line [stdin].", exists=True)
    ] = None,
    wait: Annotated[bool, typer.Option(help="Wait until queries see the rows.")] = False,
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """Push rows, one JSON object per line, to an endpoint of a webhook."""
    from narthex._formats.pandas.frames import frame_of_rows  # noqa: PLC0415 - it loads pandas

    parsed = _parsed_rows(rows.read_text() if rows else sys.stdin.read())
    client = connect_with_frames(url, token, branch)
    answer = client.log(webhook, endpoint, frame_of_rows(parsed))
    body = {} if answer is None else answer.body
    unread = found if isinstance(found := body.get("unread"), dict) else {}
    after = body.get("after")
    done: Json = {"accepted": len(parsed), "unread": unread, "after": after}
    print_done(done, f"{_counted(len(parsed), 'row')} accepted", as_json=as_json)
    for name, count in unread.items():
        tell(f"no dataset reads the field `{name}`: {count} of the rows have it")
    if wait and isinstance(after, str):
        client.wait_for_rows(after)


def _loaded(file: Path) -> "AuthorFile":
    """Import a file of definitions, as `load_file` does."""
    from narthex.cli.projects.author_files import (  # noqa: PLC0415 - the help needs no compiler
        load_file,
    )

    return load_file(file)


def _agreed_plan(preview: "Response", file: Path, branch: str) -> str:
    """Ask whether a commit may remove what a file does not declare; return the plan's hash.

    Return an empty text if it removes nothing: then any plan will do.

    Raises:
        ArgumentsUnfit: Nobody can answer.
    """
    report = preview.body.get("report")
    removed = report.get("removed") if isinstance(report, dict) else None
    if not isinstance(report, dict) or not isinstance(removed, list) or not removed:
        return ""
    lost = f"{file.name} does not declare what `{branch}` has; the commit removes:\n" + "\n".join(
        f"- {one}" for one in removed
    )
    if not sys.stdin.isatty():
        raise ArgumentsUnfit(
            lost, hint="add it to the file, commit `--incremental`, or pass `--yes`"
        )
    tell(lost)
    typer.confirm("Remove it?", abort=True, err=True)
    return str(report.get("plan_sha256", ""))


def _parsed_rows(text: str) -> list[dict[str, Json]]:
    """Parse a JSON object in each line; empty lines are skipped.

    Raises:
        ArgumentsUnfit: There is no row, or a line is not an object with a field; all are named.
    """
    rows: list[dict[str, Json]] = []
    wrong: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            wrong.append(f"line {number} is not JSON: {error.msg}, at character {error.pos + 1}")
            continue
        if isinstance(row, dict) and row:
            rows.append(row)
        else:
            wrong.append(f"line {number} is not a JSON object with fields")
    if wrong:
        more = f"\nand {len(wrong) - _MOST_WRONG} more" if len(wrong) > _MOST_WRONG else ""
        raise ArgumentsUnfit(
            "no row was sent:\n" + "\n".join(wrong[:_MOST_WRONG]) + more,
            hint='write one object per line, such as `{"user": 1, "at": "2026-01-01T00:00:00Z"}`',
        )
    if not rows:
        raise ArgumentsUnfit("there are no rows", hint="write one JSON object per line")
    return rows


def _instant(read: dict[str, Json]) -> str:
    as_of_us = read.get("as_of")
    return render_instant(as_of_us) if isinstance(as_of_us, int) else str(as_of_us)


def _given(text: str) -> tuple[str, Json]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ArgumentsUnfit(f"`{text}` is not `Featureset.feature=value`")
    try:
        parsed: Json = json.loads(value)
    except ValueError:
        return name, value
    return name, parsed


def _features(featuresets: tuple[object, ...]) -> str:
    return _counted(len(featuresets), "featureset")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"

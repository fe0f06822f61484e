"""Commands of operators for the policy file: `narthex policy check|show`."""

import os
from pathlib import Path
from typing import Annotated

import attrs
import typer

from narthex._base.records import Json
from narthex.cli.exit_codes import ExitCode
from narthex.cli.output import AsJson, print_done, print_json, print_table
from narthex.errors import PolicyInvalid

File = Annotated[
    Path | None,
    typer.Argument(
        help="The policy file [policy.toml of the installation].", metavar="FILE", exists=True
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    policy = typer.Typer(
        name="policy",
        help="Check and show what branches may read, write and name.",
        no_args_is_help=True,
    )
    policy.command("check")(check)
    policy.command("show")(show)
    app.add_typer(policy)


def check(file: File = None, *, as_json: AsJson = False) -> None:
    """List every mistake of a policy file; the installation is not changed."""
    from narthex._analysis.policy.policy import load_policy  # noqa: PLC0415 - it loads all checks
    from narthex.cli.local.policy_rules import rules_of  # noqa: PLC0415

    path = _path(file)
    try:
        policy = load_policy(path)
    except PolicyInvalid as error:
        if not as_json:
            raise
        print_json({"file": str(path), "rules": None, "mistakes": [*error.mistakes]})
        raise typer.Exit(ExitCode.FOUND) from None
    count = sum(map(len, rules_of(policy).values()))
    found: Json = {"file": str(path), "rules": count, "mistakes": []}
    print_done(found, f"{path}: {count} rules, no mistake", as_json=as_json)


def show(file: File = None, *, as_json: AsJson = False) -> None:
    """Show the rules of a policy file, including defaults."""
    from narthex._analysis.policy.policy import load_policy  # noqa: PLC0415 - it loads all checks
    from narthex.cli.local.policy_rules import row_of, rules_of  # noqa: PLC0415

    policy = load_policy(_path(file))
    if as_json:
        print_json(attrs.asdict(policy))
        return
    rows = [row_of(kind, rule) for kind, rules in rules_of(policy).items() for rule in rules]
    rows += [["hosts", host, ["*"], ""] for host in policy.egress.allow]
    print_table(("grants", "of", "branches", "more"), rows, empty=f"{_path(file)} has no rule")


def _path(file: Path | None) -> Path:
    from narthex.settings import home_of  # noqa: PLC0415

    named = os.environ.get("NARTHEX_POLICY_FILE")
    return file or Path(named or home_of(os.environ) / "policy.toml")

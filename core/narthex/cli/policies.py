"""Commands of operators for the policy file: `narthex policy check|show`."""

import os
from pathlib import Path
from typing import Annotated

import attrs
import typer

from narthex._analysis.policy.policy import Policy, load_policy
from narthex.cli.options import print_json, tell
from narthex.settings import home_of

File = Annotated[
    Path | None,
    typer.Argument(help="The policy file [policy.toml of the installation].", metavar="FILE"),
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


def check(file: File = None) -> None:
    """List every mistake of a policy file; the installation is not changed."""
    policy = load_policy(_path(file))
    tell(f"{_path(file)}: {sum(map(len, _rules(policy)))} rules, no mistake")


def show(file: File = None) -> None:
    """Print the rules of a policy file as JSON, including defaults."""
    print_json(attrs.asdict(load_policy(_path(file))))


def _path(file: Path | None) -> Path:
    named = os.environ.get("NARTHEX_POLICY_FILE")
    return file or Path(named or home_of(os.environ) / "policy.toml")


def _rules(policy: Policy) -> tuple[tuple[object, ...], ...]:
    return policy.files, policy.endpoints, policy.topics, policy.secrets

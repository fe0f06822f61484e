"""Secrets as a manager mounts them for jobs, a file each, and a policy that grants them."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from narthex.policy import load_policy


def mount(directory: str | Path, secrets: Mapping[str, str]) -> None:
    """Put values where jobs look for them."""
    for name, value in secrets.items():
        path = Path(directory) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value)


def grant(
    policy_file: Path,
    *hosts: str,
    secrets: Iterable[str] = (),
    allow: Iterable[str] | None = None,
) -> None:
    """Add to a policy that secrets may go to hosts, and that these hosts may be reached.

    Args:
        policy_file: Where the policy is.
        hosts: `host:port`.
        secrets: The names of secrets.
        allow: What of `[egress] allow` is added in place of the hosts.
    """
    policy = load_policy(policy_file)
    rules = [(rule.name, rule.hosts) for rule in policy.secrets]
    rules += [(name, hosts) for name in secrets]
    allowed = [*policy.egress.allow, *(hosts if allow is None else allow)]
    lines = [
        f"[[secrets]]\nname = {json.dumps(name)}\nbranches = ['*']\nhosts = {json.dumps(list(to))}"
        for name, to in rules
    ]
    lines.append(f"[egress]\nallow = {json.dumps(allowed)}")
    policy_file.parent.mkdir(parents=True, exist_ok=True)
    policy_file.write_text("\n".join(lines))

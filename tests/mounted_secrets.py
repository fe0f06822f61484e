"""Secrets as a manager mounts them for jobs, a file each, and a policy that grants them."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from narthex._analysis.policy.policy import Policy


def mount(directory: str | Path, secrets: Mapping[str, str]) -> None:
    """Put values where jobs look for them."""
    for name, value in secrets.items():
        path = Path(directory) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value)


_ADDED = "# what tests granted"


def grant(
    policy_file: Path,
    *hosts: str,
    secrets: Iterable[str] = (),
    allow: Iterable[str] | None = None,
) -> None:
    """Add rules to a policy: secrets may be sent to hosts, and connectors may reach these hosts.

    Args:
        policy_file: The file of the policy; its other rules remain.
        hosts: `host:port`.
        secrets: The names of secrets.
        allow: What of `[egress] allow` is added in place of the hosts.
    """
    text = policy_file.read_text() if policy_file.exists() else ""
    own, _, added = text.partition(_ADDED)
    before = Policy.parse(added)
    rules = [(rule.name, rule.hosts) for rule in before.secrets]
    rules += [(name, hosts) for name in secrets]
    allowed = [*before.egress.allow, *(hosts if allow is None else allow)]
    lines = [
        own,
        _ADDED,
        *(
            f"[[secrets]]\nname = {json.dumps(name)}\nbranches = ['*']\n"
            f"hosts = {json.dumps(list(to))}"
            for name, to in rules
        ),
        f"[egress]\nallow = {json.dumps(allowed)}",
    ]
    policy_file.parent.mkdir(parents=True, exist_ok=True)
    policy_file.write_text("\n".join(lines))

"""The groups of services, of which `narthex up --only` starts some."""

from narthex_stack.errors import BadConfigError

GROUPS = ("postgres", "kafka", "airflow", "server", "reads", "supervisor")
"""The groups that `--only` accepts."""

OPTIONAL_GROUPS = frozenset({"reads"})
"""The groups that have no process by default, so a start does not wait for one."""

START_S = 300.0
"""The longest wait for healthy services, in seconds."""


def parse_groups(text: str | None) -> tuple[str, ...]:
    """Parse `--only`; None means all groups.

    Raises:
        BadConfigError: A name is unknown.
    """
    if text is None:
        return GROUPS
    named = tuple(part.strip() for part in text.split(",") if part.strip())
    unknown = [name for name in named if name not in GROUPS]
    if unknown or not named:
        found = f"`{unknown[0]}`" if unknown else "nothing"
        raise BadConfigError(f"`--only` names {found}; it may name {', '.join(GROUPS)}")
    return tuple(group for group in GROUPS if group in named)

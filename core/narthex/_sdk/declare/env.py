"""Env selectors, which choose the sources, pipelines, features and extractors of a commit."""

from collections.abc import Sequence
from typing import TypeAlias

from narthex._base.origin import Origin
from narthex.errors import EnvInvalid

Env: TypeAlias = str | Sequence[str] | None


def parse_env(env: object, *, origin: Origin) -> tuple[str, ...]:
    """Read a selector; an empty tuple selects every env.

    Raises:
        EnvInvalid: It is empty, contains a space, or mixes names with negated names.
    """
    if env is None:
        return ()
    names = [env] if isinstance(env, str) else env
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise EnvInvalid(f"env `{env!r}` is neither a name nor a list of names", origin=origin)
    for name in names:
        if not name.removeprefix("~") or " " in name:
            raise EnvInvalid(f"env `{name}` is not a name", origin=origin)
    if len({name.startswith("~") for name in names}) > 1:
        raise EnvInvalid(
            f"env `{list(names)}` mixes names and negated names",
            origin=origin,
            hint="list either those that are meant or those that are not",
        )
    return tuple(names)


def selected(selector: tuple[str, ...], env: str | None) -> bool:
    """Whether a selector includes its entity in a commit for `env`; None includes everything."""
    if not selector or env is None:
        return True
    if selector[0].startswith("~"):
        return f"~{env}" not in selector
    return env in selector


def check_commit_env(env: object) -> str | None:
    """Read the env of a commit: one name or None.

    Raises:
        EnvInvalid: It is a list, or negated.
    """
    if env is None:
        return None
    if not isinstance(env, str) or not env or env.startswith("~") or " " in env:
        raise EnvInvalid(f"a commit is for one env, given by name; got `{env!r}`")
    return env

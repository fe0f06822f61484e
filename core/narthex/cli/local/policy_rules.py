"""The rules of a policy file as rows of a table."""

from collections.abc import Mapping

from narthex._analysis.policy.policy import (
    EndpointRule,
    FileRule,
    Policy,
    Rule,
    SecretRule,
    TopicRule,
)
from narthex._base.records import Json


def rules_of(policy: Policy) -> Mapping[str, tuple[Rule, ...]]:
    """Return the rules of a policy by what they grant."""
    return {
        "files": policy.files,
        "endpoints": policy.endpoints,
        "topics": policy.topics,
        "secrets": policy.secrets,
    }


def row_of(kind: str, rule: Rule) -> list[Json]:
    """Return what a rule grants, its branches, and its parts that are not defaults."""
    match rule:
        case FileRule(path=path, write=write):
            return [kind, path, [*rule.branches], _more(tags=rule.tags, write=write)]
        case EndpointRule(name=name, tags=tags):
            return [kind, name, [*rule.branches], _more(tags=tags)]
        case TopicRule(name=name):
            more = _more(servers=rule.servers, tags=rule.tags, write=rule.write)
            return [kind, name, [*rule.branches], more]
        case SecretRule(name=name):
            more = _more(hosts=rule.hosts, code=rule.code)
            return [kind, name, [*rule.branches], more]


def _more(**parts: str | bool | tuple[str, ...]) -> str:
    """Return the parts of a rule that grant more, or less, than its default."""
    shown = {
        name: " ".join(part) if isinstance(part, tuple) else part for name, part in parts.items()
    }
    return ", ".join(
        name if part is True else f"{name}: {part}" for name, part in shown.items() if part
    )

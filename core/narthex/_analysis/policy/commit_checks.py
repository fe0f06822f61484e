"""The files, endpoints and topics that a commit may name by the installation's policy."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import attrs

from narthex._analysis.policy.policy import Policy, granted, tags_of_rules
from narthex._base.file_paths import S3, meets, path_mistake
from narthex._base.origin import Origin
from narthex._connectors.kinds import (
    EndpointPlace,
    FilesPlace,
    RemotePlace,
    SharedPlace,
    TopicPlace,
)
from narthex._connectors.registry import kind_of
from narthex._ir.connections import Connector
from narthex._ir.entities import Definitions
from narthex.errors import DefinitionError, NotGranted, PlaceForbidden

Place: TypeAlias = tuple[str, str]
"""A place through which rows are shared: its kind, and its name.

Topics are identified by their names alone, as one broker has many addresses.
"""


@attrs.frozen(kw_only=True)
class Use:
    """One use of a place by a dataset: the target, its position in the source, and the purpose."""

    dataset: str
    target: Connector
    is_written: bool
    origin: Origin


def uses(definitions: Definitions | None) -> Iterator[Use]:
    """Return each source and each sink of definitions."""
    for dataset in definitions.datasets if definitions else ():
        for source in dataset.sources:
            yield Use(
                dataset=dataset.name,
                target=source.connector,
                is_written=False,
                origin=source.origin,
            )
        for sink in dataset.sinks:
            yield Use(dataset=dataset.name, target=sink.target, is_written=True, origin=sink.origin)


def place_of(target: Connector) -> Place | None:
    """Return the place that a source reads or a sink writes; None for a call over HTTP."""
    match kind_of(target).policy.place(target):
        case EndpointPlace(webhook=webhook, endpoint=endpoint):
            return "endpoint", f"{webhook}/{endpoint}"
        case TopicPlace(topic=topic):
            return "topic", topic
        case FilesPlace(path=path):
            return "files", path.removesuffix("/")
        case RemotePlace(kind=kind, name=name):
            return kind, name
        case None:
            return None


def tags_of_place(place: Place, policy: Policy) -> frozenset[str]:
    """Return the tags that a policy assigns to the rows of a place."""
    kind, name = place
    match kind:
        case "endpoint":
            webhook, _, endpoint = name.partition("/")
            return tags_of_rules(policy.endpoint_rules(webhook, endpoint))
        case "topic":
            return tags_of_rules(policy.topics_named(name))
        case "files":
            return tags_of_rules(rule for rule in policy.files if meets(rule.path, name))
        case _:
            return frozenset()


def policy_errors(
    definitions: Definitions,
    deployed: Definitions | None,
    *,
    policy: Policy,
    branch: str,
    places: Sequence[str],
) -> Iterator[DefinitionError]:
    """Return an error for each place that a commit may not name.

    The platform's own places are refused in the whole commit. The policy is applied to places that
    the branch has not bound yet. `narthex._analysis.checks.places` has already refused the places
    that no policy can grant.

    Args:
        definitions: All definitions of the branch after the commit.
        deployed: All definitions that it has now.
        policy: The operator's policy.
        branch: The branch's name.
        places: The platform's own places, from `narthex._analysis.policy.platform_places`.
    """
    known = {_binding(use) for use in uses(deployed)}
    for use in uses(definitions):
        place = kind_of(use.target).policy.place(use.target)
        if isinstance(place, FilesPlace) and _is_own(place.path, places):
            yield PlaceForbidden(
                f"the path `{place.path}` reaches a directory that belongs to the platform",
                origin=use.origin,
                hint="give a path that has files of authors alone",
            )
        elif _binding(use) not in known:
            yield from _not_granted(use, place, policy, branch)


def _is_own(path: str, places: Sequence[str]) -> bool:
    return bool(path_mistake(path)) or any(meets(place, path) for place in places)


def _binding(use: Use) -> tuple[object, ...]:
    """Return the parts of a use that the policy checks; an unchanged use is not checked again."""
    place = kind_of(use.target).policy.place(use.target)
    is_ruled = isinstance(place, FilesPlace | TopicPlace)
    return (place if is_ruled else use.target), use.is_written


def _not_granted(
    use: Use, place: SharedPlace | None, policy: Policy, branch: str
) -> Iterator[NotGranted]:
    match place:
        case FilesPlace(path=name):
            rule = _files_rule(place, use, policy, branch)
        case TopicPlace(topic=name):
            rule = _topic_rule(place, use, policy, branch)
        case EndpointPlace(webhook=webhook, endpoint=endpoint):
            name = f"{webhook}/{endpoint}"
            rules = policy.endpoint_rules(webhook, endpoint)
            is_granted = not rules or granted(rules, branch)
            rule = "" if is_granted else _said("endpoints", name=name)
        case _:
            return
    if rule:
        what = "written by" if use.is_written else "read by"
        yield NotGranted(
            f"`{name}` may not be {what} branch `{branch}`",
            origin=use.origin,
            hint=f"ask the operator for a rule in the policy file: `{rule}`",
        )


def _files_rule(files: FilesPlace, use: Use, policy: Policy, branch: str) -> str:
    """Return the rule that a source or a sink of files lacks; empty if none is missing."""
    rules = policy.file_rules(files.path)
    if use.is_written:
        rules = tuple(rule for rule in rules if rule.write)
    elif not policy.files and (files.has_own_keys or not files.path.startswith(S3)):
        return ""
    return "" if granted(rules, branch) else _said("files", write=use.is_written, path=files.path)


def _topic_rule(topic: TopicPlace, use: Use, policy: Policy, branch: str) -> str:
    """Return the rule that a source or a sink of a topic lacks; empty if none is missing."""
    rules = policy.topic_rules(topic.bootstrap_servers, topic.topic)
    if use.is_written:
        rules = tuple(rule for rule in rules if rule.write)
    elif not policy.topics_named(topic.topic):
        return ""
    return "" if granted(rules, branch) else _said("topics", write=use.is_written, name=topic.topic)


def _said(table: str, *, write: bool = False, **keys: str) -> str:
    said = "; ".join(f'{key} = "{value}"' for key, value in keys.items())
    return f"[[{table}]] {said}; branches = […]" + ("; write = true" if write else "")

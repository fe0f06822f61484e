"""The files, endpoints and topics that a commit may name by the installation's policy."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias, assert_never

import attrs

from narthex._analysis.fingerprints import database_id
from narthex._analysis.policy.policy import Policy, granted, tags_of_rules
from narthex._base.file_paths import S3, meets, path_mistake
from narthex._base.origin import Origin
from narthex._ir.connections import (
    Connector,
    Files,
    HttpPath,
    KafkaTopic,
    KinesisStream,
    PubSubTopic,
    SinkTarget,
    Table,
    WebhookEndpoint,
)
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
    target: Connector | SinkTarget
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


def place_of(target: Connector | SinkTarget) -> Place | None:
    """Return the place that a source reads or a sink writes; None for a call over HTTP."""
    match target:
        case WebhookEndpoint(webhook=webhook, endpoint=endpoint):
            return "endpoint", f"{webhook}/{endpoint}"
        case KafkaTopic(topic=topic):
            return "topic", topic
        case Files(path=path):
            return "files", path.removesuffix("/")
        case Table(database=database, table=table):
            return "table", f"{database_id(database)}/{table}"
        case KinesisStream(stream_arn=stream):
            return "stream", stream
        case PubSubTopic(project_id=project, topic=topic):
            return "pubsub", f"{project}/{topic}"
        case HttpPath():
            return None
        case _:
            assert_never(target)


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
        if isinstance(use.target, Files) and _is_own(use.target.path, places):
            yield PlaceForbidden(
                f"the path `{use.target.path}` reaches a directory that belongs to the platform",
                origin=use.origin,
                hint="give a path that has files of authors alone",
            )
        elif _binding(use) not in known:
            yield from _not_granted(use, policy, branch)


def _is_own(path: str, places: Sequence[str]) -> bool:
    return bool(path_mistake(path)) or any(meets(place, path) for place in places)


def _binding(use: Use) -> tuple[object, ...]:
    """Return the parts of a use that the policy checks; an unchanged use is not checked again."""
    match use.target:
        case Files(path=path) as files:
            return "files", path, has_own_keys(files), use.is_written
        case KafkaTopic(bootstrap_servers=servers, topic=topic):
            return "topic", servers, topic, use.is_written
        case _:
            return use.target, use.is_written


def has_own_keys(files: Files) -> bool:
    """Whether a store is opened with keys of the author, not with the platform's own."""
    return files.access_key is not None and files.secret_key is not None


def _not_granted(use: Use, policy: Policy, branch: str) -> Iterator[NotGranted]:
    match use.target:
        case Files() as files:
            rule = _files_rule(files, use, policy, branch)
        case KafkaTopic() as topic:
            rule = _topic_rule(topic, use, policy, branch)
        case WebhookEndpoint(webhook=webhook, endpoint=endpoint):
            rules = policy.endpoint_rules(webhook, endpoint)
            is_granted = not rules or granted(rules, branch)
            rule = "" if is_granted else _said("endpoints", name=f"{webhook}/{endpoint}")
        case _:
            rule = ""
    if rule:
        what = "written by" if use.is_written else "read by"
        yield NotGranted(
            f"`{_named(use.target)}` may not be {what} branch `{branch}`",
            origin=use.origin,
            hint=f"ask the operator for a rule in the policy file: `{rule}`",
        )


def _files_rule(files: Files, use: Use, policy: Policy, branch: str) -> str:
    """Return the rule that a source or a sink of files lacks; empty if none is missing."""
    rules = policy.file_rules(files.path)
    if use.is_written:
        rules = tuple(rule for rule in rules if rule.write)
    elif not policy.files and (has_own_keys(files) or not files.path.startswith(S3)):
        return ""
    return "" if granted(rules, branch) else _said("files", write=use.is_written, path=files.path)


def _topic_rule(topic: KafkaTopic, use: Use, policy: Policy, branch: str) -> str:
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


def _named(target: Connector | SinkTarget) -> str:
    match target:
        case WebhookEndpoint(webhook=webhook, endpoint=endpoint):
            return f"{webhook}/{endpoint}"
        case KafkaTopic(topic=topic):
            return topic
        case Files(path=path):
            return path
        case _:
            return type(target).__name__

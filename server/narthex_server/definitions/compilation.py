"""Compilation of a commit's payload, which reports every mistake at once."""

from collections.abc import Callable

import attrs

from narthex._analysis import ChangeCause, Changes, change_causes, check, compare
from narthex._analysis.policy import Policy, egress_errors
from narthex._compiler import (
    compile_blueprint,
    decide_partitions,
    not_carried_out,
    reuse_logs,
)
from narthex._connectors import Connection, resolve_connections
from narthex._formats.wire import CommitPayload, decode_commit, encode_commit
from narthex._ir import Blueprint, Definitions
from narthex._sdk.closure import received
from narthex.errors import DefinitionError, RecordNotUnderstood, raise_all
from narthex_server.errors import InvalidRequest
from narthex_server.tracing import span


@attrs.frozen(kw_only=True)
class Proposal:
    """A commit that may be carried out.

    Attributes:
        definitions: All entities of the branch after the commit.
        bundle: The same in its stored form.
        changes: The differences from the deployed definitions.
        change_causes: The first causes of differences between assets.
    """

    payload: CommitPayload
    definitions: Definitions
    blueprint: Blueprint
    bundle: bytes
    changes: Changes
    reasons: tuple[ChangeCause, ...]


@attrs.frozen(kw_only=True)
class Grants:
    """The context of a commit's checks, besides the deployed definitions.

    Attributes:
        branch: The branch that the commit is for.
        find_connection: Returns a connection by name; None if the branch may use none of it.
        partitions: How many partitions the log of a new dataset has, unless its author decides.
        endpoint_url: The address of the platform's object store; empty for Amazon's.
        most: How many datasets and featuresets a branch may have.
    """

    policy: Policy
    branch: str
    partitions: int
    find_connection: Callable[[str], Connection | None]
    endpoint_url: str = ""
    most: int


def propose(
    body: bytes, *, deployed: Definitions | None, incremental: bool, grants: Grants
) -> Proposal:
    """Parse and check a payload, without side effects.

    Raises:
        DefinitionErrors: Every mistake in the payload, in source order; or, if it has none,
            everything that no job can carry out yet, or that the policy denies.
        InvalidRequest: The branch would have too many definitions.
        PolicyInvalid: The policy has an entry that cannot be read.
    """
    with span("compile"):
        return _proposed(body, deployed, incremental=incremental, grants=grants)


def _proposed(
    body: bytes, deployed: Definitions | None, *, incremental: bool, grants: Grants
) -> Proposal:
    if not body:
        # An empty body is a valid protobuf message, which would remove everything.
        raise RecordNotUnderstood("the commit is empty")
    payload = decode_commit(body)
    _require_few(payload.definitions, grants)
    connected, unknown = resolve_connections(payload.definitions, grants.find_connection)
    sent, refused = received(connected, deployed)
    changes = compare(deployed, sent, incremental=incremental)
    _require_few(changes.definitions, grants)
    raise_all([*check(changes.definitions), *changes.errors, *refused, *unknown])
    raise_all([*not_carried_out(changes.definitions), *_denied(changes.definitions, grants)])
    decided = decide_partitions(deployed, changes.definitions, default=grants.partitions)
    definitions = reuse_logs(deployed, decided)
    whole = attrs.evolve(payload, definitions=definitions)
    return Proposal(
        payload=payload,
        definitions=definitions,
        blueprint=compile_definitions(definitions),
        bundle=encode_commit(whole),
        changes=changes,
        reasons=change_causes(deployed, definitions),
    )


def _require_few(definitions: Definitions, grants: Grants) -> None:
    """Refuse what would take minutes to check, and thousands of topics to carry out.

    Raises:
        InvalidRequest: There are too many definitions.
    """
    count = len(definitions.datasets) + len(definitions.featuresets)
    if count > grants.most:
        raise InvalidRequest(
            f"branch `{grants.branch}` would have {count} datasets and featuresets; at most "
            f"{grants.most} are allowed: commit some of them to another branch, or ask the "
            "operator to raise `NARTHEX_MOST_DEFINITIONS`"
        )


def _denied(definitions: Definitions, grants: Grants) -> tuple[DefinitionError, ...]:
    return egress_errors(
        definitions, grants.policy, branch=grants.branch, endpoint_url=grants.endpoint_url
    )


def compile_definitions(definitions: Definitions) -> Blueprint:
    """Return the blueprint of checked definitions."""
    return compile_blueprint(definitions)

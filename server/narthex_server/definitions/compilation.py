"""The definition server: what a commit's payload means, and every mistake in it, at once."""

import attrs

from narthex._analysis import ChangeCause, Changes, change_causes, check, compare
from narthex._analysis.policy import Policy, egress_errors
from narthex._compiler import compile_blueprint, not_carried_out, reuse_logs
from narthex._formats.wire import CommitPayload, decode_commit, encode_commit
from narthex._ir import Blueprint, Definitions
from narthex._sdk.closure import verify_all
from narthex.errors import DefinitionError, RecordNotUnderstood, raise_all


@attrs.frozen(kw_only=True)
class Proposal:
    """A commit that may be carried out.

    Attributes:
        definitions: All entities of the branch after it.
        bundle: The same as it is stored.
        changes: What differs from what is deployed.
        change_causes: Why assets differ: the first causes.
    """

    payload: CommitPayload
    definitions: Definitions
    blueprint: Blueprint
    bundle: bytes
    changes: Changes
    reasons: tuple[ChangeCause, ...]


@attrs.frozen(kw_only=True)
class Grants:
    """What a commit is judged by.

    Attributes:
        branch: Where it is to stand.
        endpoint_url: Of the platform's object store; empty for Amazon's.
    """

    policy: Policy
    branch: str
    endpoint_url: str = ""


def propose(
    body: bytes, *, deployed: Definitions | None, incremental: bool, grants: Grants
) -> Proposal:
    """Read and judge a payload; touches nothing.

    Raises:
        DefinitionErrors: Everything that is wrong with it, in source order; or, if nothing is,
            everything in it that no job can carry out yet, or that the policy denies.
        PolicyInvalid: The policy has an entry that cannot be read.
    """
    if not body:
        # No bytes are a valid message of protobuf, and would mean: remove everything.
        raise RecordNotUnderstood("the commit has no bytes")
    payload = decode_commit(body)
    changes = compare(deployed, payload.definitions, incremental=incremental)
    altered = verify_all(payload.definitions)
    raise_all([*check(changes.definitions), *changes.errors, *altered])
    raise_all([*not_carried_out(changes.definitions), *_denied(changes.definitions, grants)])
    definitions = reuse_logs(deployed, changes.definitions)
    whole = attrs.evolve(payload, definitions=definitions)
    return Proposal(
        payload=payload,
        definitions=definitions,
        blueprint=compile_definitions(definitions),
        bundle=encode_commit(whole),
        changes=changes,
        reasons=change_causes(deployed, definitions),
    )


def _denied(definitions: Definitions, grants: Grants) -> tuple[DefinitionError, ...]:
    return egress_errors(
        definitions, grants.policy, branch=grants.branch, endpoint_url=grants.endpoint_url
    )


def compile_definitions(definitions: Definitions) -> Blueprint:
    """Return the blueprint of checked definitions."""
    return compile_blueprint(definitions)

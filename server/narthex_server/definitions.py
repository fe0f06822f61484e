"""The definition server: what a commit's payload means, and every mistake in it, at once."""

import attrs

from narthex.assets import Blueprint
from narthex.blueprint import compile_blueprint
from narthex.capability import not_carried_out
from narthex.carrying import carry_on
from narthex.changes import Changes, compare
from narthex.closure import verify_all
from narthex.entities import Definitions
from narthex.errors import RecordNotUnderstood, raise_all
from narthex.graph import check
from narthex.reasons import Reason, reasons
from narthex.wire import CommitPayload, decode_commit, encode_commit


@attrs.frozen(kw_only=True)
class Proposal:
    """A commit that may be carried out.

    Attributes:
        definitions: All entities of the branch after it.
        bundle: The same as it is stored.
        changes: What differs from what is deployed.
        reasons: Why assets differ: the first causes.
    """

    payload: CommitPayload
    definitions: Definitions
    blueprint: Blueprint
    bundle: bytes
    changes: Changes
    reasons: tuple[Reason, ...]


def propose(body: bytes, *, deployed: Definitions | None, incremental: bool) -> Proposal:
    """Read and judge a payload; touches nothing.

    Raises:
        DefinitionErrors: Everything that is wrong with it, in source order; or, if nothing is,
            everything in it that no job can carry out yet.
    """
    if not body:
        # No bytes are a valid message of protobuf, and would mean: remove everything.
        raise RecordNotUnderstood("the commit has no bytes")
    payload = decode_commit(body)
    changes = compare(deployed, payload.definitions, incremental=incremental)
    altered = verify_all(payload.definitions)
    raise_all([*check(changes.definitions), *changes.errors, *altered])
    raise_all(not_carried_out(changes.definitions))
    definitions = carry_on(deployed, changes.definitions)
    whole = attrs.evolve(payload, definitions=definitions)
    return Proposal(
        payload=payload,
        definitions=definitions,
        blueprint=compile_definitions(definitions),
        bundle=encode_commit(whole),
        changes=changes,
        reasons=reasons(deployed, definitions),
    )


def compile_definitions(definitions: Definitions) -> Blueprint:
    """Give the blueprint of checked definitions."""
    return compile_blueprint(definitions)

"""Routes of erasures: the rows of some keys leave a dataset, and all that is derived from it.

An erasure is about all branches, because their assets are shared, so its right is for tokens
without limits. The values of the keys are sealed until the certificate exists, and deleted then.
"""

import json
from collections.abc import Collection
from typing import NoReturn
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, JsonValue
from typing_extensions import TypedDict

from narthex._base import Json
from narthex._compiler import target_id
from narthex._ir import Dataset, Definitions, SinkJobSpec, SourceJobSpec
from narthex.errors import NotYetSupported
from narthex_ledger import (
    BlockedSource,
    ErasureRequest,
    ErasureState,
    ErasureView,
    NotSigned,
    ReachedAsset,
    unsupported,
)
from narthex_server.definitions.data_flow import datasets_above
from narthex_server.erasures.erased_rows import (
    Digests,
    endpoint_of,
    erase_fields,
    form_of,
    keys_of,
    why_not_found,
)
from narthex_server.erasures.erased_stores import about
from narthex_server.erasures.erasing import digests_of
from narthex_server.erasures.sink_targets import why_not_deleted
from narthex_server.errors import InvalidRequest, Missing
from narthex_server.security.request_access import AccessDep
from narthex_server.security.request_identity import IdentityDep, new_commit_id
from narthex_server.security.route_rights import Extent, Right, requires
from narthex_server.services.container import Services, ServicesDep
from narthex_server.web.plain_routes import IDEMPOTENT, Instant, Number, PlainRoute
from narthex_stores import platform_broker

router = APIRouter(
    route_class=PlainRoute,
    dependencies=[requires(Right.ERASE, extent=Extent.INSTALLATION, is_recorded=True)],
)

MOST_KEYS = 10_000


class EraseCall(BaseModel):
    """The keys to erase.

    Attributes:
        erase_keys: For each key, the values of the erase keys of the dataset.
        leave_sinks: The targets of sinks with the rows from which nothing is deleted: those that
            their sinks cannot erase must be named, and others may be.
    """

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    erase_keys: list[dict[str, JsonValue]]
    leave_sinks: list[str] = []


class VerifyCall(BaseModel):
    """A certificate, its signature, and perhaps a key that it is to cover."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    certificate: dict[str, JsonValue]
    signature: str
    key: dict[str, JsonValue] | None = None


class Erasure(TypedDict):
    """An erasure.

    Attributes:
        erased_keys: How many keys it is for.
        waits_for: What its next step waits for; empty if nothing.
        certificate: The certificate; null before the end.
        signature: The installation's signature of the certificate, in hexadecimal digits.
    """

    erasure_id: str
    dataset: str
    branch: str
    actor: str
    state: str
    erased_keys: int
    waits_for: str
    requested_at: Instant
    finished_at: Instant | None
    certificate: JsonValue
    signature: str | None


class ErasureList(TypedDict):
    """Erasures, the newest first."""

    erasures: list[Erasure]


class Verification(TypedDict):
    """Whether a certificate is the installation's.

    Attributes:
        why: Why it is not.
        covers: Whether it is about the key; null if none was named.
    """

    is_valid: bool
    why: str
    covers: bool | None


@router.post("/dataset/{name}/erase", openapi_extra=IDEMPOTENT)
def erase(
    name: str, call: EraseCall, services: ServicesDep, access: AccessDep, caller: IdentityDep
) -> Erasure:
    """Erase the rows of keys from a dataset, and from all that is derived from them.

    From the answer on, endpoints leave out rows with these keys. `GET /erasures/{erasure_id}` shows
    how far the removal is, and has the certificate at its end.
    """
    snapshot = access.snapshots.deployed(access.branch)
    dataset = None if snapshot is None else _find(snapshot.definitions.datasets, name)
    if snapshot is None or dataset is None:
        raise Missing(f"branch `{access.branch}` has no dataset `{name}`")
    if not dataset.sources:
        _refuse_computed(dataset, snapshot.definitions)
    keys = keys_of(dataset, call.erase_keys)
    if not keys or len(keys) > MOST_KEYS:
        raise InvalidRequest(f"name 1 to {MOST_KEYS:,} keys; found {len(keys):,}")
    assets = services.ledger.erasures.reached(services.tenant, name)
    _require_supported(dataset, assets)
    _require_named(dataset, assets, call.leave_sinks, services)
    digests = Digests.of(services.sealer)
    key = caller.idempotency_key
    erasure_id = (
        UUID(bytes=digests.of_request("id", key)[:16], version=4) if key else new_commit_id("", b"")
    )
    fields = [field.name for field in erase_fields(dataset)]
    view = services.ledger.erasures.request(
        ErasureRequest(
            erasure_id=erasure_id,
            tenant=services.tenant,
            branch=access.branch,
            dataset=name,
            fields=tuple(fields),
            actor=caller.actor,
            request_sha256=digests.of_request(
                access.branch, name, [{**one} for one in keys], [*sorted(set(call.leave_sinks))]
            ),
            digests=tuple(digests.of_key(name, one) for one in keys),
            sealed=services.sealer.seal(json.dumps(keys), about=about(erasure_id)),
            sources=tuple(_sources(name, fields, assets)),
            leave_sinks=tuple(sorted(set(call.leave_sinks))),
        )
    )
    services.blocked_keys.forget()
    return _plain(view)


@router.get("/erasures")
def erasures(services: ServicesDep, limit: Number = 50) -> ErasureList:
    """List erasures, the newest first."""
    found = services.ledger.erasures.newest(services.tenant, limit=min(limit, 1_000))
    return {"erasures": [_plain(view) for view in found]}


@router.get("/erasures/{erasure_id}")
def erasure_of(erasure_id: UUID, services: ServicesDep) -> Erasure:
    """Return an erasure, with its certificate once it has ended."""
    return _plain(services.ledger.erasures.get(erasure_id))


@router.post("/erasures/verify")
def verify(call: VerifyCall, services: ServicesDep) -> Verification:
    """Check the signature of a certificate, and whether the certificate covers a key."""
    covers = None
    certificate: dict[str, Json] = {**call.certificate}
    if call.key is not None:
        digest = Digests.of(services.sealer).of_key(str(certificate.get("dataset")), call.key)
        covers = digest.hex() in digests_of(certificate)
    try:
        services.ledger.erasures.verify(certificate, _bytes(call.signature))
    except NotSigned as error:
        return {"is_valid": False, "why": error.what, "covers": covers}
    return {"is_valid": True, "why": "", "covers": covers}


def _require_supported(dataset: Dataset, assets: tuple[ReachedAsset, ...]) -> None:
    """Refuse an erasure that would not be whole.

    Raises:
        NotYetSupported: With all reasons.
    """
    why = [*unsupported(assets), *why_not_found(dataset)]
    if why:
        raise NotYetSupported(
            f"rows of `{dataset.name}` cannot be erased: {'; '.join(why)}",
            hint="erase them at the source, then raise the version of the dataset",
        )


def _refuse_computed(dataset: Dataset, definitions: Definitions) -> NoReturn:
    """Refuse to erase from a computed dataset, and name the datasets that its rows come from.

    Raises:
        NotYetSupported: Always.
    """
    names = datasets_above(definitions, dataset.name)
    above = [one for one in definitions.datasets if one.name in names and one.sources]
    raise NotYetSupported(
        f"rows of `{dataset.name}` cannot be erased: it is computed from others",
        hint=f"erase them from {' and '.join(map(_with_keys, above))}; `{dataset.name}` is "
        "computed again without them",
    )


def _with_keys(dataset: Dataset) -> str:
    fields = erase_fields(dataset)
    names = ", ".join(f"`{field.name}`" for field in fields)
    return f"`{dataset.name}` by {names}" if names else f"`{dataset.name}`, once it has erase keys"


def _require_named(
    dataset: Dataset,
    assets: tuple[ReachedAsset, ...],
    named: Collection[str],
    services: Services,
) -> None:
    """Refuse an erasure whose caller does not know all targets that keep the rows.

    Raises:
        NotYetSupported: A target that its sink cannot erase is not named.
        InvalidRequest: A name is not that of a target.
    """
    specs = [asset.spec for asset in assets if isinstance(asset.spec, SinkJobSpec)]
    sinks = {target_id(spec.sink.target): spec.dataset for spec in specs}
    wrong = sorted(set(named) - set(sinks))
    if wrong:
        known = ", ".join(f"`{name}`" for name in sorted(sinks)) or "none"
        raise InvalidRequest(f"no sink with the rows writes to `{wrong[0]}`; the targets: {known}")
    replaced = services.ledger.erasures.replaced_sinks(services.tenant)
    why = why_not_deleted(specs, replaced, kafka=platform_broker(services.settings))
    missing = [name for name in why if name not in named]
    if missing:
        found = "; ".join(f"`{name}` has rows of `{sinks[name]}`: {why[name]}" for name in missing)
        raise NotYetSupported(
            f"rows of `{dataset.name}` cannot be erased where sinks write them: {found}",
            hint="erase them there, and name each target in `leave_sinks` (`--leave-sink`); the "
            "certificate lists it as not erased",
        )


def _sources(
    dataset: str, fields: list[str], assets: tuple[ReachedAsset, ...]
) -> list[BlockedSource]:
    """Return how rows of endpoints became rows of the dataset, by all commits that are kept."""
    found = []
    for asset in assets:
        spec = asset.spec
        if not isinstance(spec, SourceJobSpec) or spec.dataset != dataset:
            continue
        endpoint = endpoint_of(spec.source)
        if endpoint is not None:
            form = form_of(spec.source, spec.schema, fields)
            found.append(BlockedSource(endpoint=endpoint, dataset=dataset, form=form))
    return found


def _find(datasets: tuple[Dataset, ...], name: str) -> Dataset | None:
    return next((one for one in datasets if one.name == name), None)


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise InvalidRequest("a signature is in hexadecimal digits") from None


def _plain(view: ErasureView) -> Erasure:
    is_certified = view.state is ErasureState.CERTIFIED
    return {
        "erasure_id": str(view.erasure_id),
        "dataset": view.dataset,
        "branch": view.branch,
        "actor": view.actor,
        "state": view.state.value,
        "erased_keys": len(view.digests),
        "waits_for": view.waits_for,
        "requested_at": view.requested_at.isoformat(),
        "finished_at": view.finished_at.isoformat() if view.finished_at else None,
        "certificate": view.certificate if is_certified else None,
        "signature": view.signature.hex() if view.signature else None,
    }

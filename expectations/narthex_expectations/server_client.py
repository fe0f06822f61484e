"""The server's API for audits: reading datasets, and storing results."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

import attrs
import requests

from narthex._base import Json, from_plain
from narthex._ir import DatasetPlan, Featureset
from narthex.settings import Settings
from narthex_expectations.audit_results import AuditResult
from narthex_stores import history_path

_TIMEOUT_S = 30.0

_T = TypeVar("_T")


class ServerRefusedError(RuntimeError):
    """The server refused a request; the message is its own."""


class EntityNotFoundError(ServerRefusedError):
    """The server has nothing of that name."""


class UnknownNamesError(ValueError):
    """The server has nothing of some names.

    Attributes:
        refusals: The server's answer to each such name.
    """

    def __init__(self, refusals: Mapping[str, str]) -> None:
        """Describe the names by the server's answers."""
        super().__init__("; ".join(refusals.values()))
        self.refusals = refusals


@attrs.frozen(kw_only=True)
class AuditedDataset:
    """A dataset as a branch serves it, the location of its history, and the name of its log."""

    plan: DatasetPlan
    history_path: str
    topic: str


def audited_dataset(settings: Settings, name: str, *, branch: str) -> AuditedDataset:
    """Return a dataset from the server.

    Raises:
        ServerRefusedError: No dataset has that name, or the server does not answer.
    """
    found = _call("GET", f"datasets/{name}", settings, branch=branch)
    plan = from_plain(found["plan"])
    history, topic = found.get("history"), found.get("topic")
    if not (isinstance(plan, DatasetPlan) and isinstance(history, str) and isinstance(topic, str)):
        raise ServerRefusedError(f"the server's answer about `{name}` describes no dataset")
    path = history_path(settings.history_dir, history)
    return AuditedDataset(plan=plan, history_path=path, topic=topic)


def audited_entity(settings: Settings, name: str, *, branch: str) -> "AuditedDataset | Featureset":
    """Return a dataset, or a featureset, from the server.

    Raises:
        ServerRefusedError: None has that name, or the server does not answer.
    """
    try:
        return audited_dataset(settings, name, branch=branch)
    except EntityNotFoundError as refused:
        try:
            found = _call("GET", f"featuresets/{name}", settings, branch=branch)
        except EntityNotFoundError:
            raise refused from None
    featureset = from_plain(found["definition"])
    if not isinstance(featureset, Featureset):
        raise ServerRefusedError(f"the server's answer about `{name}` describes no featureset")
    return featureset


def audited_entities(
    settings: Settings, names: Iterable[str], *, branch: str
) -> dict[str, "AuditedDataset | Featureset"]:
    """Return datasets and featuresets from the server by their names, in the order of the names.

    A name that is repeated is there once.

    Raises:
        UnknownNamesError: Some names are neither those of datasets nor of featuresets.
        ServerRefusedError: The server does not answer.
    """
    return _by_name(names, partial(audited_entity, settings, branch=branch))


def audited_datasets(
    settings: Settings, names: Iterable[str], *, branch: str
) -> dict[str, AuditedDataset]:
    """Return datasets from the server as `audited_entities` does; a featureset is unknown here.

    Raises:
        UnknownNamesError: Some names are not those of datasets.
        ServerRefusedError: The server does not answer.
    """
    return _by_name(names, partial(audited_dataset, settings, branch=branch))


def _by_name(names: Iterable[str], read: Callable[[str], _T]) -> dict[str, _T]:
    found: dict[str, _T] = {}
    refusals: dict[str, str] = {}
    for name in dict.fromkeys(names):
        try:
            found[name] = read(name)
        except EntityNotFoundError as refused:
            refusals[name] = str(refused)
    if refusals:
        raise UnknownNamesError(refusals)
    return found


def keep_audit(settings: Settings, result: AuditResult, *, branch: str) -> None:
    """Store the result of an audit on the server.

    Raises:
        ServerRefusedError: The server did not store it.
    """
    body: dict[str, Json] = {
        "dataset": result.dataset,
        "from_us": result.from_us,
        "to_us": result.to_us,
        "success": result.success,
        "is_critical": result.is_critical,
        "result": result.to_json(),
    }
    _call("POST", "audits", settings, branch=branch, body=body)


def summary_state(settings: Settings) -> dict[str, Json]:
    """Return up to where logged queries are summarized, and how features are counted.

    Raises:
        ServerRefusedError: The server does not answer.
    """
    return _call("GET", "feature_summaries/state", settings, branch="main")


def add_summaries(settings: Settings, body: dict[str, Json]) -> None:
    """Add summaries of logged answers, with the offsets that they are of.

    Raises:
        ServerRefusedError: They are summarized already, or the server does not answer.
    """
    _call("POST", "feature_summaries", settings, branch="main", body=body)


def column_state(settings: Settings) -> list[Json]:
    """List the datasets of all branches, and up to which hour their columns are summarized.

    Raises:
        ServerRefusedError: The server does not answer.
    """
    listed = _call("GET", "column_summaries/state", settings, branch="main")["datasets"]
    return listed if isinstance(listed, list) else []


def put_columns(settings: Settings, summaries: list[Json]) -> None:
    """Store summaries of columns, over those of the same hours.

    Raises:
        ServerRefusedError: The server did not store them.
    """
    body: dict[str, Json] = {"summaries": summaries}
    _call("POST", "column_summaries", settings, branch="main", body=body)


def audit_assets(settings: Settings) -> dict[str, Json]:
    """Compare the ledger with every store; return the findings.

    Raises:
        ServerRefusedError: The server does not answer.
    """
    return _call("POST", "upkeep/audit", settings, branch="main")


def adopt_stores(settings: Settings) -> dict[str, Json]:
    """Declare that the ledger, though restored or moved, owns the stores.

    Raises:
        ServerRefusedError: The server or a store does not answer.
    """
    return _call("POST", "upkeep/adopt", settings, branch="main")


def _call(
    method: str, path: str, settings: Settings, *, branch: str, body: dict[str, Json] | None = None
) -> dict[str, Json]:
    try:
        answer = requests.request(
            method,
            f"{settings.server_url.rstrip('/')}/api/v1/{path}",
            json=body,
            headers={"Authorization": f"Bearer {settings.token}", "X-NARTHEX-BRANCH": branch},
            timeout=_TIMEOUT_S,
        )
    except requests.RequestException as error:
        raise ServerRefusedError(f"the server does not answer: {error}") from error
    if answer.status_code == requests.codes.not_found:
        raise EntityNotFoundError(f"{method} {path}: {answer.status_code} {answer.text}")
    if not answer.ok:
        raise ServerRefusedError(f"{method} {path}: {answer.status_code} {answer.text}")
    found: dict[str, Json] = answer.json()
    return found

"""Offline queries and training sets, as the ledger returns them."""

import datetime as dt
from uuid import UUID

import attrs

from narthex._base import Json
from narthex_ledger.model.states import OfflineState
from narthex_ledger.model.views import Epoch


@attrs.frozen(kw_only=True)
class OfflineView:
    """An offline query; `epoch` is the fence of the engine that runs it."""

    request_id: UUID
    state: OfflineState
    manifest_id: UUID
    actor: str
    request: Json
    progress: Json
    result: Json
    error: Json
    owner: str | None
    epoch: Epoch
    submitted_at: dt.datetime
    finished_at: dt.datetime | None


@attrs.frozen(kw_only=True)
class TrainingSetView:
    """A training set: the spine and the answers of an offline query, kept under a name.

    Attributes:
        branch: The name of the branch whose features it has.
        name: Its name. None is stored beside another of the branch that its maker sees.
        request_id: The offline query that answered it.
        commit_id: The commit whose features it has.
        content_sha256: The hash of the request for it: its spine, its features and its instants.
        data_sha256: The hash of the file of its rows.
        description: Its columns, log offsets and statistics.
        signature: The signature of all of this but the time; the ledger makes and checks it.
    """

    training_set_id: UUID
    branch: str
    name: str
    request_id: UUID
    commit_id: UUID
    content_sha256: bytes
    data_sha256: bytes
    rows: int
    description: Json
    signature: bytes | None = None
    created_at: dt.datetime

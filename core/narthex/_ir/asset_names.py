"""Names of physical things, derived from an asset's meaning, never from its logical name."""

import base64
import hashlib
import re

from narthex._ir.assets import AssetKind

_KIND2 = {
    AssetKind.KAFKA_TOPIC: "kt",
    AssetKind.INDEX: "ix",
    AssetKind.HISTORY: "hi",
    AssetKind.CHECKPOINT: "cp",
    AssetKind.STREAM_JOB: "sj",
    AssetKind.INDEX_FEED: "xf",
    AssetKind.HISTORY_FEED: "hf",
    AssetKind.SINK_FENCE: "sf",
}
_INSTALL = re.compile(r"[a-z0-9]{8}")
_DIGEST_CHARACTERS = 26
_GREATEST_INCARNATION = 10**20
"""With fewer digits, a name has at most 63 bytes, PostgreSQL's limit for identifiers."""


def physical_name(
    *,
    install_id: str,
    tenant: int | str,
    kind: AssetKind,
    fp_version: int,
    fingerprint: bytes,
    incarnation: int,
) -> str:
    """Return the name of one incarnation of an asset in one installation.

    The same arguments always yield the same name; different arguments yield different names. The
    name is legal for Kafka, file systems, object stores and SQL without escaping, and at most 63
    bytes long.

    Raises:
        ValueError: The installation's id is not eight of [a-z0-9], or the incarnation is below one.
    """
    if not 1 <= incarnation < _GREATEST_INCARNATION:
        raise ValueError(f"an incarnation must be at least 1, got {incarnation}")
    meaning = hashlib.sha256()
    for part in (
        str(tenant).encode(),
        kind.value.encode(),
        str(fp_version).encode(),
        fingerprint,
    ):
        meaning.update(len(part).to_bytes(4))
        meaning.update(part)
    digest = base64.b32encode(meaning.digest()).decode().lower()[:_DIGEST_CHARACTERS]
    return f"{kind_prefix(install_id, kind)}{digest}_i{incarnation}"


def install_prefix(install_id: str) -> str:
    """Return the prefix of all physical names of an installation.

    Raises:
        ValueError: The id is not eight of [a-z0-9].
    """
    if not _INSTALL.fullmatch(install_id):
        raise ValueError(
            f"an installation id must be eight characters of [a-z0-9], got `{install_id}`"
        )
    return f"nx_{install_id}_"


def kind_prefix(install_id: str, kind: AssetKind) -> str:
    """Return the prefix of all physical names of one kind in an installation.

    Raises:
        ValueError: The id is not eight of [a-z0-9].
    """
    return f"{install_prefix(install_id)}{_KIND2[kind]}_"

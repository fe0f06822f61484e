"""Refusing rows that are not what was signed, where they are read to be run or answered from."""

from collections.abc import Iterable

import attrs
from sqlalchemy.engine import RowMapping

from narthex_ledger.signing import Verifier, asset_statement, manifest_statement, needs_statement


@attrs.frozen(kw_only=True)
class Checker:
    """Holds rows against their signatures; without a verifier, for tales and tests, against none.

    Each method raises NotSigned.
    """

    verifier: Verifier | None

    def asset(self, row: RowMapping) -> None:
        """Refuse an asset whose spec or name is not what was signed."""
        if self.verifier is None:
            return
        statement = asset_statement(
            row["tenant_id"],
            row["kind"],
            bytes(row["fingerprint"]),
            physical_name=row["physical_name"],
            spec=row["spec"],
        )
        self.verifier.check(statement, _bytes(row["signature"]), what=_named(row))

    def needs(self, row: RowMapping, needed: Iterable[RowMapping]) -> None:
        """Refuse an asset that needs other assets, or in other roles, than was signed."""
        if self.verifier is None:
            return
        needs = ((one["role"], one["kind"], bytes(one["fingerprint"])) for one in needed)
        statement = needs_statement(row["tenant_id"], row["physical_name"], needs)
        signature = _bytes(row["needs_signature"])
        self.verifier.check(statement, signature, what=f"what {_named(row)} needs")

    def manifest(self, row: RowMapping, bound: Iterable[tuple[str, str]]) -> None:
        """Refuse a manifest that holds or binds something else than was signed."""
        if self.verifier is None:
            return
        statement = manifest_statement(
            row["tenant_id"],
            row["manifest_id"],
            bytes(row["bundle_sha256"]),
            content=row["content"],
            bound=bound,
        )
        what = f"manifest {row['manifest_id']}"
        self.verifier.check(statement, _bytes(row["signature"]), what=what)


UNCHECKED = Checker(verifier=None)
"""Lets assets pass that are told of, and neither run nor read."""


def _named(row: RowMapping) -> str:
    return f"asset {row['physical_name']}"


def _bytes(value: object) -> bytes | None:
    return bytes(value) if isinstance(value, bytes | memoryview) else None

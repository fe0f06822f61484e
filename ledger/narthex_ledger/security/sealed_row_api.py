"""The part of the ledger for sealed values: secrets, and connections by name."""

import attrs

from narthex._base import Json
from narthex_ledger.db.statements import control_plane as on_control
from narthex_ledger.errors import LedgerRefused, NotFound
from narthex_ledger.model.access_views import SealedView
from narthex_ledger.model.views import TenantId
from narthex_ledger.session import LedgerDatabase


@attrs.frozen
class SealedRows:
    """The sealed values of one table; each method is one transaction.

    Attributes:
        kind: The word for one of them, `secret` or `connection`.
    """

    _db: LedgerDatabase
    kind: str

    def get(self, tenant: TenantId, name: str) -> SealedView:
        """Read a value, sealed.

        Raises:
            NotFound: None has that name.
        """
        found = self.find(tenant, name)
        if found is None:
            raise NotFound(f"there is no {self.kind} `{name}`")
        return found

    def find(self, tenant: TenantId, name: str) -> SealedView | None:
        """Read a value, sealed; None if none has that name."""
        return self._db.run(
            f"find_{self.kind}", lambda c: on_control.find_sealed(c, self.kind, tenant, name)
        )

    def names(self, tenant: TenantId) -> tuple[str, ...]:
        """List the names of all values, sorted."""
        return self._db.run(
            f"{self.kind}_names", lambda c: on_control.sealed_names(c, self.kind, tenant)
        )

    def add(self, tenant: TenantId, name: str, *, sealed: Json, actor: str) -> None:
        """Store a new value, sealed as version 1.

        Raises:
            LedgerRefused: One of that name exists.
        """
        if not self._db.run(
            f"add_{self.kind}",
            lambda c: on_control.insert_sealed(c, self.kind, tenant, name, sealed, actor),
        ):
            raise LedgerRefused(
                f"there is a {self.kind} `{name}` already", hint="change it, or delete it first"
            )

    def change(
        self, tenant: TenantId, name: str, *, version: int, sealed: Json, actor: str
    ) -> None:
        """Store another value in place of the one at `version`, sealed as the next version.

        Raises:
            LedgerRefused: It was changed at the same time.
        """
        values: dict[str, Json] = {"sealed": sealed, "changed_by": actor}
        if not self._db.run(
            f"change_{self.kind}",
            lambda c: on_control.change_sealed(
                c, self.kind, tenant, name, version=version, values=values
            ),
        ):
            raise LedgerRefused(
                f"{self.kind} `{name}` is not at version {version} any more", hint="try again"
            )

    def seal_again(self, tenant: TenantId, name: str, *, old: Json, sealed: Json) -> bool:
        """Store the same value as sealed by another key; false if it was changed meanwhile."""
        return self._db.run(
            f"seal_{self.kind}_again",
            lambda c: on_control.seal_again(c, self.kind, tenant, name, old=old, sealed=sealed),
        )

    def delete(self, tenant: TenantId, name: str) -> None:
        """Delete a value.

        Raises:
            NotFound: None has that name.
        """
        if not self._db.run(
            f"delete_{self.kind}",
            lambda c: on_control.delete_sealed(c, self.kind, tenant, name),
        ):
            raise NotFound(f"there is no {self.kind} `{name}`")

"""Look up the secrets that definitions name, and check which hosts may receive them."""

import pkgutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

import attrs

from narthex._analysis.policy import Policy, egress_rules, load_policy, require_grant
from narthex._connectors import (
    AddressInvalidError,
    Destination,
    EgressRules,
    HttpAddress,
    sink_address,
)
from narthex._ir import Credential, SecretRef
from narthex._runtime import SecretFiles, reveal
from narthex.errors import SecretWithheld
from narthex.settings import Settings

READ_SEALED: Final = "narthex_spark_apps.platform.sealed_secrets:read_sealed"
"""Imported at the first sealed secret: most jobs need none, and it needs the ledger."""


@attrs.frozen(kw_only=True)
class AuthorSecrets:
    """Finds secrets by name; may be sent to workers: it contains no value and no key.

    Attributes:
        home: The installation's home; its ledger has the sealed secrets and its key opens them.
        mounted: The directory where a secret manager mounts secrets; empty: secrets are sealed.
        policy_file: The operator's policy; it is read for every check of a secret or a host.
    """

    home: Path
    mounted: str
    policy_file: Path

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the secrets of an installation."""
        return cls(
            home=settings.home, mounted=settings.secrets_dir, policy_file=settings.policy_file
        )

    def __call__(self, name: str) -> str | None:
        """Return the current value of a secret; None if no secret has this name.

        Raises:
            NotOpenedError: The secret is sealed with another key than this machine's.
        """
        if self.mounted:
            return SecretFiles(Path(self.mounted))(name)
        read: Callable[[Path, str], str | None] = pkgutil.resolve_name(READ_SEALED)
        return read(self.home, name)

    def policy(self) -> Policy:
        """Return the current policy.

        Raises:
            PolicyInvalid: The policy cannot be read.
        """
        policy = load_policy(self.policy_file)
        egress_rules(policy)
        return policy

    def egress(self) -> EgressRules:
        """Return the hosts that the current policy allows.

        Raises:
            PolicyInvalid: The policy cannot be read.
        """
        return egress_rules(load_policy(self.policy_file))

    def reveal(self, credential: Credential, targets: Sequence[Destination]) -> str:
        """Return the value of a credential that is sent to these servers and to no others.

        Raises:
            SecretMissing: The secret does not exist, or is not stored here.
            SecretWithheld: The policy does not grant the secret to one of the servers.
            PolicyInvalid: The policy cannot be read.
        """
        if isinstance(credential, SecretRef):
            require_grant(self.policy(), credential.name, targets)
        return reveal(credential, self)

    def reveal_address(self, credential: Credential) -> HttpAddress:
        """Return the address of a server that is itself a secret.

        Raises:
            SecretMissing: The secret does not exist, or is not stored here.
            SecretWithheld: Its value is not an address, or the policy does not grant it to the host
                that it names.
            PolicyInvalid: The policy cannot be read.
        """
        try:
            address = sink_address(reveal(credential, self))
        except AddressInvalidError:
            # The reason would contain the secret.
            raise SecretWithheld("the secret that contains a host is not an address") from None
        self.reveal(credential, (address.target,))
        return address

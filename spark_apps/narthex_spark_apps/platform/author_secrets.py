"""Where jobs find the secrets that their definitions name, and to which hosts they send them."""

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import attrs

from narthex._analysis.policy import (
    AddressInvalidError,
    Destination,
    EgressRules,
    HttpAddress,
    Policy,
    egress_rules,
    load_policy,
    require_grant,
    sink_address,
)
from narthex._ir import Credential, SecretRef
from narthex._runtime import SecretFiles, reveal
from narthex.errors import SecretWithheld
from narthex.settings import Settings, load_settings
from narthex_ledger import Ledger, NotFound, SealedSecrets


@attrs.frozen(kw_only=True)
class AuthorSecrets:
    """Finds secrets by name; it may travel, no value is in it and nothing that opens one.

    Attributes:
        home: Of the installation, in whose ledger they are sealed, and whose key opens them.
        mounted: The directory where a manager mounts them instead; empty: none does.
        policy_file: What the operator grants; it is read whenever a secret or a host is asked for.
    """

    home: Path
    mounted: str
    policy_file: Path

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the ones of an installation."""
        return cls(
            home=settings.home, mounted=settings.secrets_dir, policy_file=settings.policy_file
        )

    def __call__(self, name: str) -> str | None:
        """Return a secret's value as it is now; None if there is none of that name.

        Raises:
            NotOpenedError: It is sealed, and not by the key of this machine.
        """
        if self.mounted:
            return SecretFiles(Path(self.mounted))(name)
        settings = load_settings({**os.environ, "NARTHEX_HOME": str(self.home)})
        try:
            return _sealed(settings.ledger_dsn, settings.secrets_key).read(name)
        except NotFound:
            return None

    def policy(self) -> Policy:
        """Return the policy as it is now.

        Raises:
            PolicyInvalid: It cannot be read.
        """
        policy = load_policy(self.policy_file)
        egress_rules(policy)
        return policy

    def egress(self) -> EgressRules:
        """Return the hosts that the policy allows as it is now.

        Raises:
            PolicyInvalid: The policy cannot be read.
        """
        return egress_rules(load_policy(self.policy_file))

    def reveal(self, credential: Credential, targets: Sequence[Destination]) -> str:
        """Return the value of a credential, which is sent to these servers and to no others.

        Raises:
            SecretMissing: It is not there, or not kept here.
            SecretWithheld: No rule of the policy grants it to one of the servers.
            PolicyInvalid: The policy cannot be read.
        """
        if isinstance(credential, SecretRef):
            require_grant(self.policy(), credential.name, targets)
        return reveal(credential, self)

    def reveal_address(self, credential: Credential) -> HttpAddress:
        """Return the address of a server that is itself a secret.

        Raises:
            SecretMissing: It is not there, or not kept here.
            SecretWithheld: Its value is not an address, or no rule of the policy grants it to
                the host that it names.
            PolicyInvalid: The policy cannot be read.
        """
        try:
            address = sink_address(reveal(credential, self))
        except AddressInvalidError:
            # The reason would contain the secret.
            raise SecretWithheld("the secret that is to be a host is not an address") from None
        self.reveal(credential, (address.target,))
        return address


@functools.cache
def _sealed(ledger_dsn: str, key: Path) -> SealedSecrets:
    """Open the ledger where secrets are sealed, once a process: its one connection is kept."""
    return SealedSecrets.of(Ledger(ledger_dsn), key)

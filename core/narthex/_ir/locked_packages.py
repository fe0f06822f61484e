"""The packages of a project's lock that code uses, and the text that installs exactly them."""

import hashlib
import re
import sys
import sysconfig
from typing import Final

import attrs

from narthex._base.origin import NOWHERE, Origin
from narthex._base.records import DESCRIPTION, record

MOST_PACKAGES: Final = 200
"""The most packages of a lock that one function may use."""
MOST_HASHES: Final = 400
"""The most hashes of one package."""
NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
"""A distribution's name in its normal form."""
VERSION: Final = re.compile(r"[0-9A-Za-z]([0-9A-Za-z.!+_-]*[0-9A-Za-z])?")
"""A version, which has neither spaces nor wildcards."""

_HASH_BYTES: Final = 32


@record
@attrs.frozen(kw_only=True)
class LockedPackage:
    """A package of the project's lock that the code imports, or that such a package needs.

    Attributes:
        distribution: Its name, in the form in which indexes compare names.
        version: Its exact version.
        hashes: The SHA-256 of each file that may be installed, 32 bytes each, sorted.
        origin: Its line in the lock.
    """

    distribution: str = attrs.field(validator=attrs.validators.instance_of(str))
    version: str = attrs.field(validator=attrs.validators.instance_of(str))
    hashes: tuple[bytes, ...] = attrs.field(
        validator=attrs.validators.deep_iterable(
            attrs.validators.instance_of(bytes), attrs.validators.instance_of(tuple)
        )
    )
    origin: Origin = attrs.field(default=NOWHERE, metadata=DESCRIPTION)

    @property
    def is_well_formed(self) -> bool:
        """Whether its line in a lock means to a tool what it says, and nothing else."""
        return bool(
            NAME.fullmatch(self.distribution)
            and VERSION.fullmatch(self.version)
            and 0 < len(self.hashes) <= MOST_HASHES
            and all(len(one) == _HASH_BYTES for one in self.hashes)
            and list(self.hashes) == sorted(set(self.hashes))
        )

    def line(self) -> str:
        """Render the line of a lock.

        Raises:
            ValueError: It is not well-formed.
        """
        if not self.is_well_formed:
            raise ValueError(f"`{self.distribution!r}` cannot be locked")
        hashes = "".join(f" --hash=sha256:{one.hex()}" for one in self.hashes)
        return f"{self.distribution}=={self.version}{hashes}"


def render_lock(packages: tuple[LockedPackage, ...]) -> str:
    """Render packages as a lock, each in a line.

    Raises:
        ValueError: One is not well-formed.
    """
    return "".join(f"{one.line()}\n" for one in packages)


def environment_name(packages: tuple[LockedPackage, ...]) -> str:
    """Return the name of the environment with these packages; empty for none.

    It depends on the packages, this Python and this kind of machine, and on nothing else.

    Raises:
        ValueError: A package is not well-formed.
    """
    if not packages:
        return ""
    place = f"{sys.implementation.cache_tag} {sysconfig.get_platform()}\n"
    return hashlib.sha256((place + render_lock(packages)).encode()).hexdigest()

"""Directories that carry the mark of their owner, so that two things never pass for each other.

A directory comes into being whole: it is filled under another name, synchronised and renamed.
It goes the same way: renamed into `.trash`, then deleted. `OWNER.json` in it names what it is.
"""

import contextlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs

from narthex._base import Json, from_plain, to_plain
from narthex._ir import AssetKind, AssetSpec
from narthex_stores.adapters.protocol import Absent, Listed, Match, Mismatch, Probe, Unknown
from narthex_stores.errors import ForeignAssetError, MalformedNameError, TransientError

OWNER_FILE = "OWNER.json"
_TRASH = ".trash"
_MAKING = ".making"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


@attrs.frozen(kw_only=True)
class Owner:
    """Whose a directory is.

    Attributes:
        external_id: Drawn when the directory was made; a directory made anew has another.
        spec: The plain form of the asset's spec.
    """

    external_id: str
    asset_id: int
    kind: AssetKind
    name: str
    spec: Json


def find_owner(path: Path) -> Owner | None:
    """Find the owner of a directory; None when nothing stands there.

    Raises:
        ForeignAssetError: Something without a readable mark stands there, or a link.
    """
    if path.is_symlink():
        raise ForeignAssetError(f"`{path}` is a link; directories of the platform never are")
    if not path.exists():
        return None
    try:
        plain = json.loads((path / OWNER_FILE).read_text())
        return Owner(
            external_id=str(plain["external_id"]),
            asset_id=int(plain["asset_id"]),
            kind=AssetKind(plain["kind"]),
            name=str(plain["name"]),
            spec=plain["spec"],
        )
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        # A concurrent removal takes the directory away as a whole.
        if not path.exists():
            return None
        raise ForeignAssetError(f"`{path}` has no readable `{OWNER_FILE}`") from None


def create_owned(root: Path, owner: Owner, *, fill: Callable[[Path], None] | None = None) -> None:
    """Make the directory `root/<owner.name>` whole, or leave alone what stands there.

    Args:
        root: Where directories of this kind stand.
        owner: What is written into the mark.
        fill: Puts into the directory what it must hold from its first instant.
    """
    target = place(root, owner.name)
    making = root / _MAKING / f"{owner.name}.{owner.external_id}"
    making.mkdir(parents=True)
    try:
        mark = {
            "external_id": owner.external_id,
            "asset_id": owner.asset_id,
            "kind": owner.kind.value,
            "name": owner.name,
            "spec": owner.spec,
        }
        (making / OWNER_FILE).write_text(json.dumps(mark, sort_keys=True, indent=1))
        if fill is not None:
            fill(making)
        _sync(making / OWNER_FILE)
        _sync(making)
        # A directory that holds something is never replaced by a rename: the first one stands.
        with contextlib.suppress(OSError):
            making.rename(target)
        _sync(root)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def destroy_owned(root: Path, name: str, *, external_id: str | None) -> None:
    """Remove the directory; when it is gone already, finish what an earlier call began.

    Raises:
        ForeignAssetError: Another directory stands there; it is left alone.
    """
    target = place(root, name)
    owner = find_owner(target)
    if owner is not None:
        if external_id is not None and owner.external_id != external_id:
            raise ForeignAssetError(
                f"`{target}` is `{owner.external_id}`, not `{external_id}`; it is left alone"
            )
        (root / _TRASH).mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            target.rename(root / _TRASH / f"{name}.{owner.external_id}")
        _sync(root)
    for left in (root / _TRASH).glob(f"{name}.*"):
        shutil.rmtree(left, ignore_errors=True)


def list_owned(root: Path, prefix: str) -> Iterator[Owner]:
    """List the owned directories below `root` whose names begin so, by name.

    Directories that are being made or removed are not there; those without a mark are not ours.
    """
    if not root.exists():
        return
    for path in sorted(root.iterdir()):
        if path.name.startswith((".", "_")) or not path.name.startswith(prefix):
            continue
        with contextlib.suppress(ForeignAssetError):
            owner = find_owner(path)
            if owner is not None:
                yield owner


def place(root: Path, name: str) -> Path:
    """Return the directory of that name.

    Raises:
        MalformedNameError: The name could lead elsewhere.
    """
    return root / checked_name(name)


def checked_name(name: str) -> str:
    """Return the name back, if it is one that a physical thing can have.

    Raises:
        MalformedNameError: The name could lead elsewhere.
    """
    if not _NAME.fullmatch(name):
        raise MalformedNameError(f"`{name}` is not a physical name")
    return name


@attrs.frozen(kw_only=True)
class DirectoryAdapter:
    """Makes, finds and removes owned directories of one kind.

    Attributes:
        fill: Puts into a new directory what it must hold from its first instant.
        fresh_id: Draws an external id.
    """

    kind: AssetKind
    root: Path = attrs.field(converter=Path)
    fill: Callable[[Path, AssetSpec], None] | None = None
    fresh_id: Callable[[], str] = secrets.token_hex

    def probe(self, name: str, spec: AssetSpec, *, timeout_s: float) -> Probe:
        """Say what stands under the name."""
        del timeout_s
        try:
            owner = find_owner(place(self.root, name))
        except ForeignAssetError as error:
            return Mismatch(str(error))
        except OSError as error:
            return Unknown(f"`{self.root / name}`: {error}")
        match owner:
            case None:
                return Absent()
            case Owner(kind=self.kind, name=found) if found == name and _same(owner.spec, spec):
                return Match(owner.external_id)
            case _:
                return Mismatch(f"`{name}` is {owner.kind.value} `{owner.name}` of another spec")

    def create(self, name: str, spec: AssetSpec, *, asset_id: int, timeout_s: float) -> None:
        """Make the directory, unless something stands there."""
        del timeout_s
        target = place(self.root, name)
        if target.exists() or target.is_symlink():
            return
        owner = Owner(
            external_id=self.fresh_id(),
            asset_id=asset_id,
            kind=self.kind,
            name=name,
            spec=to_plain(spec),
        )
        fill = self.fill
        with _transient(target):
            create_owned(
                self.root, owner, fill=None if fill is None else lambda path: fill(path, spec)
            )

    def destroy(self, name: str, *, external_id: str | None, timeout_s: float) -> None:
        """Remove the directory of that external id."""
        del timeout_s
        with _transient(self.root / name):
            destroy_owned(self.root, name, external_id=external_id)

    def list(self, prefix: str, *, timeout_s: float) -> tuple[Listed, ...]:
        """List the directories whose names begin so."""
        del timeout_s
        with _transient(self.root):
            return tuple(
                Listed(name=owner.name, external_id=owner.external_id, asset_id=owner.asset_id)
                for owner in list_owned(self.root, prefix)
            )


def _same(found: Json, spec: AssetSpec) -> bool:
    try:
        return from_plain(found) == spec
    except ValueError:
        return False


@contextlib.contextmanager
def _transient(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TransientError(f"`{path}`: {error}") from error


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

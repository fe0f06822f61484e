"""Directories that carry their owner's mark, so that no directory is mistaken for another.

A directory is created atomically: it is filled under another name, synchronised and renamed.
It is removed likewise: renamed into `.trash`, then deleted. Its `OWNER.json` names its owner.
"""

import contextlib
import json
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs

from narthex._base import Json, atomic_write, from_plain, sync_path, to_plain
from narthex._ir import AssetKind, AssetSpec
from narthex_stores.adapters.protocol import Absent, Listed, Match, Mismatch, Probe, Unknown
from narthex_stores.errors import ForeignAssetError, MalformedNameError, TransientError

OWNER_FILE = "OWNER.json"
_TRASH = ".trash"
_MAKING = ".making"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


@attrs.frozen(kw_only=True)
class Owner:
    """The owner of a directory.

    Attributes:
        external_id: Drawn when the directory is created; a recreated directory has another one.
        asset_id: The asset; 0 for the mark of the ledger that may destroy assets in the store.
        spec: The plain form of the asset's spec.
    """

    external_id: str
    asset_id: int
    kind: AssetKind
    name: str
    spec: Json

    @property
    def is_ledger_mark(self) -> bool:
        """Whether the directory is the mark of a ledger, and not an asset."""
        return self.asset_id == 0

    @classmethod
    def of_new(cls, name: str, kind: AssetKind, spec: AssetSpec, *, asset_id: int) -> "Owner":
        """Return the owner of a directory that is about to be created, with a random id."""
        return cls(
            external_id=secrets.token_hex(),
            asset_id=asset_id,
            kind=kind,
            name=name,
            spec=to_plain(spec),
        )

    @classmethod
    def parse(cls, mark: str) -> "Owner":
        """Return the owner that the text of a mark names.

        Raises:
            ValueError: The text is not a mark.
        """
        try:
            plain = json.loads(mark)
            return cls(
                external_id=str(plain["external_id"]),
                asset_id=int(plain["asset_id"]),
                kind=AssetKind(plain["kind"]),
                name=str(plain["name"]),
                spec=plain["spec"],
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an owner's mark: {error}") from error


def find_owner(path: Path) -> Owner | None:
    """Find the owner of a directory; None when nothing exists at the path.

    Raises:
        ForeignAssetError: The path is a link, or something without a readable mark.
    """
    if path.is_symlink():
        raise ForeignAssetError(
            f"`{path}` is a symbolic link; the platform's directories must not be links"
        )
    if not path.exists():
        return None
    try:
        return Owner.parse((path / OWNER_FILE).read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        # A concurrent removal renames the whole directory away.
        if not path.exists():
            return None
        raise ForeignAssetError(f"`{path}` has no readable `{OWNER_FILE}`") from None


def create_owned(root: Path, owner: Owner, *, fill: Callable[[Path], None] | None = None) -> None:
    """Create the directory `root/<owner.name>` atomically, unless the path is taken.

    Args:
        root: The parent of all directories of this kind.
        owner: The content of the mark.
        fill: Writes the initial content of the directory.
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
        atomic_write(making / OWNER_FILE, json.dumps(mark, sort_keys=True, indent=1), mode=0o644)
        if fill is not None:
            fill(making)
        sync_path(making)
        # A rename never replaces a directory that is not empty: the first one wins.
        with contextlib.suppress(OSError):
            making.rename(target)
        sync_path(root)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def destroy_owned(root: Path, name: str, *, external_id: str | None) -> None:
    """Remove the directory; when it is gone already, finish an earlier call's cleanup.

    Raises:
        ForeignAssetError: The path is another owner's directory; it is not destroyed.
    """
    target = place(root, name)
    owner = find_owner(target)
    if owner is not None:
        if external_id is not None and owner.external_id != external_id:
            raise ForeignAssetError(
                f"`{target}` is `{owner.external_id}`, not `{external_id}`; it is not destroyed"
            )
        (root / _TRASH).mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            target.rename(root / _TRASH / f"{name}.{owner.external_id}")
        sync_path(root)
    for left in (root / _TRASH).glob(f"{name}.*"):
        shutil.rmtree(left, ignore_errors=True)


def list_owned(root: Path, prefix: str) -> Iterator[Owner]:
    """List the owned directories below `root` whose names have the prefix, by name.

    The list omits directories that are being created or removed, and those without a mark.
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
        MalformedNameError: The name could lead out of the root.
    """
    return root / checked_name(name)


def checked_name(name: str) -> str:
    """Return the name unchanged, if it is valid for a physical thing.

    Raises:
        MalformedNameError: The name could lead out of the root.
    """
    if not _NAME.fullmatch(name):
        raise MalformedNameError(f"`{name}` is not a physical name")
    return name


@attrs.frozen(kw_only=True)
class DirectoryAdapter:
    """Creates, finds and removes owned directories of one kind.

    Attributes:
        fill: Writes the initial content of a new directory.
    """

    kind: AssetKind
    root: Path = attrs.field(converter=Path)
    fill: Callable[[Path, AssetSpec], None] | None = None

    def probe(self, name: str, spec: AssetSpec, *, timeout_s: float) -> Probe:
        """Probe the directory of that name."""
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
        """Create the directory, unless the path is taken."""
        del timeout_s
        target = place(self.root, name)
        if target.exists() or target.is_symlink():
            return
        owner = Owner.of_new(name, self.kind, spec, asset_id=asset_id)
        fill = self.fill
        with _transient(target):
            create_owned(
                self.root, owner, fill=None if fill is None else lambda path: fill(path, spec)
            )

    def destroy(self, name: str, *, external_id: str | None, timeout_s: float) -> None:
        """Remove the directory with that external id."""
        del timeout_s
        with _transient(self.root / name):
            destroy_owned(self.root, name, external_id=external_id)

    def list(self, prefix: str, *, timeout_s: float) -> tuple[Listed, ...]:
        """List the directories whose names have the prefix."""
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

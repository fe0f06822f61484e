"""Create, find and remove the Delta tables of histories, on a local disk or an object store.

A table's own id is its external id; its description carries the owner's mark.
"""

import json
from collections.abc import Mapping

import attrs
from pyarrow import fs

from narthex._base import Json, from_plain, to_plain
from narthex._ir import AssetKind, AssetSpec, HistorySpec
from narthex_stores.adapters.directories import checked_name
from narthex_stores.adapters.protocol import Absent, Listed, Match, Mismatch, Probe, Unknown
from narthex_stores.errors import (
    ForeignAssetError,
    PermanentError,
    StoreError,
    TransientError,
)
from narthex_stores.facts.tables import fact_schema
from narthex_stores.file_systems import file_system_of
from narthex_stores.history.table import PROPERTIES, open_table

_TRASH = ".trash"


def storage_options(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the object store's options from the environment: all `AWS_…` variables."""
    return {name: value for name, value in environment.items() if name.startswith("AWS_")}


def history_path(history_dir: str, name: str) -> str:
    """Return the path or URL of the history of that physical name.

    Raises:
        MalformedNameError: The name could lead out of the directory.
    """
    return f"{history_dir.rstrip('/')}/{checked_name(name)}"


@attrs.frozen(kw_only=True)
class _Mark:
    external_id: str
    asset_id: int
    name: str
    spec: Json


@attrs.frozen(kw_only=True)
class HistoryAdapter:
    """Histories below one path or `s3://` URL.

    Attributes:
        history_dir: The path or URL above all histories.
        storage: Options of the object store.
    """

    history_dir: str = attrs.field(converter=str)
    storage: Mapping[str, str] = attrs.field(factory=dict, repr=False)

    @property
    def kind(self) -> AssetKind:
        """The kind of asset that the adapter handles."""
        return AssetKind.HISTORY

    def probe(self, name: str, spec: AssetSpec, *, timeout_s: float) -> Probe:
        """Probe the table of that name."""
        try:
            mark = self._mark(name, timeout_s=timeout_s)
        except ForeignAssetError as error:
            return Mismatch(str(error))
        except StoreError as error:
            return Unknown(str(error))
        match mark:
            case None:
                return Absent()
            case _Mark(name=found) if found == name and _same(mark.spec, spec):
                return Match(mark.external_id)
            case _:
                return Mismatch(f"`{name}` is the history `{mark.name}` of another spec")

    def create(self, name: str, spec: AssetSpec, *, asset_id: int, timeout_s: float) -> None:
        """Create an empty table, unless the name is taken."""
        if not isinstance(spec, HistorySpec):
            raise PermanentError(f"`{name}` is not a history: {type(spec).__name__}")
        from deltalake import DeltaTable  # noqa: PLC0415
        from deltalake.exceptions import DeltaError  # noqa: PLC0415

        path = history_path(self.history_dir, name)
        if self._mark(name, timeout_s=timeout_s) is not None:
            return
        mark = {"asset_id": asset_id, "name": name, "spec": to_plain(spec)}
        try:
            DeltaTable.create(
                path,
                fact_schema(spec.log),
                mode="error",
                name=name,
                description=json.dumps(mark, sort_keys=True),
                configuration=PROPERTIES,
                storage_options=self._options(timeout_s),
            )
        except (DeltaError, OSError) as error:
            # Another caller may have been first; then its table is kept.
            if self._mark(name, timeout_s=timeout_s) is None:
                raise TransientError(f"`{path}`: {error}") from error

    def destroy(self, name: str, *, external_id: str | None, timeout_s: float) -> None:
        """Remove the table with that id, and its files."""
        mark = self._mark(name, timeout_s=timeout_s)
        if mark is not None and external_id is not None and mark.external_id != external_id:
            raise ForeignAssetError(f"`{name}` is `{mark.external_id}`, not `{external_id}`")
        try:
            files, root = file_system_of(self.history_dir)
            _remove(files, root, name)
        except OSError as error:
            raise TransientError(f"`{name}`: {error}") from error

    def list(self, prefix: str, *, timeout_s: float) -> tuple[Listed, ...]:
        """List the tables whose names have the prefix."""
        try:
            files, root = file_system_of(self.history_dir)
            infos = files.get_file_info(fs.FileSelector(root, allow_not_found=True))
        except OSError as error:
            raise TransientError(f"`{self.history_dir}`: {error}") from error
        names = sorted(info.base_name for info in infos if info.base_name.startswith(prefix))
        marks = (self._owned(name, timeout_s=timeout_s) for name in names if name[0].isalpha())
        return tuple(
            Listed(name=mark.name, external_id=mark.external_id, asset_id=mark.asset_id)
            for mark in marks
            if mark is not None
        )

    def _owned(self, name: str, *, timeout_s: float) -> _Mark | None:
        try:
            return self._mark(name, timeout_s=timeout_s)
        except ForeignAssetError:
            return None

    def _mark(self, name: str, *, timeout_s: float) -> _Mark | None:
        path = history_path(self.history_dir, name)
        try:
            metadata = open_table(path, storage=self._options(timeout_s)).metadata()
        except FileNotFoundError:
            return None
        try:
            plain = json.loads(metadata.description or "")
            return _Mark(
                external_id=str(metadata.id),
                asset_id=int(plain["asset_id"]),
                name=str(plain["name"]),
                spec=plain["spec"],
            )
        except (ValueError, KeyError, TypeError):
            raise ForeignAssetError(f"`{path}` is a table without Narthex's owner mark") from None

    def _options(self, timeout_s: float) -> dict[str, str]:
        options = dict(self.storage)
        if self.history_dir.startswith("s3://"):
            options["timeout"] = f"{timeout_s:g}s"
        return options


def _remove(files: fs.FileSystem, root: str, name: str) -> None:
    path, trash = f"{root}/{name}", f"{root}/{_TRASH}/{name}"
    if isinstance(files, fs.LocalFileSystem):
        # One rename, so no reader or writer ever sees half a table.
        if files.get_file_info(path).type is fs.FileType.Directory:
            files.create_dir(f"{root}/{_TRASH}", recursive=True)
            files.move(path, trash)
        path = trash
    else:
        _delete(files, f"{path}/_delta_log")
    _delete(files, path)


def _delete(files: fs.FileSystem, path: str) -> None:
    if files.get_file_info(path).type is fs.FileType.Directory:
        files.delete_dir(path)


def _same(found: Json, spec: AssetSpec) -> bool:
    try:
        return from_plain(found) == spec
    except ValueError:
        return False

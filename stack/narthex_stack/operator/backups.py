"""Backups of an installation whose services all run on this machine: its state at one instant.

The services are stopped for the time of the copy, so that the ledger, the logs and the indexes
agree. A backup is a directory: `state.tar` with the files of the home and PostgreSQL's data,
`keys.tar` with the keys and passwords, and `backup.json` with their sizes and SHA-256 digests.
"""

import datetime as dt
import hashlib
import importlib.metadata
import io
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

import attrs
from typing_extensions import Buffer, override

from narthex_stack.errors import NotHereError
from narthex_stack.install.config import Config, load_config
from narthex_stack.install.layout import HomeLayout
from narthex_stack.machine.files import Json, load_object, store_json
from narthex_stack.machine.ports import chosen_ports, is_listening
from narthex_stack.operator.stack import Stack
from narthex_stack.servers import postgres

FORMAT: Final = 1
STATE, KEYS, DESCRIPTION = "state.tar", "keys.tar", "backup.json"
_KEYS: Final = ("secrets.json", "secrets.key", "signing.key", "signing.key.next")
_LEFT_OUT: Final = ("run", "logs", "spark", "services.json", "keys.lock")
_ELSEWHERE: Final = (
    "ledger_dsn",
    "airflow_dsn",
    "kafka",
    "server_url",
    "airflow_url",
    "index_dir",
    "index_store",
    "history_dir",
    "checkpoint_dir",
)
_HOME, _POSTGRES = "home", "postgres"
_CHUNK: Final = 1 << 20

Progress = Callable[[int, int], None]
"""Called with the bytes that were copied, and with those to copy."""


def _ignore(_done: int, _total: int) -> None:
    return


@attrs.frozen(kw_only=True)
class Backup:
    """The description of a backup.

    Attributes:
        version: The version of Narthex that made it.
        made_at: The instant, in ISO 8601.
        files: The size in bytes and the SHA-256 digest of each file, by its name.
        links: The symbolic links that lead out of their directory, which are left out.
    """

    version: str
    install_id: str
    made_at: str
    files: dict[str, tuple[int, str]]
    links: tuple[str, ...] = ()

    def plain(self) -> dict[str, Json]:
        """Return it as JSON."""
        files: dict[str, Json] = {
            name: {"bytes": size, "sha256": sha} for name, (size, sha) in self.files.items()
        }
        return {
            "format": FORMAT,
            "version": self.version,
            "install_id": self.install_id,
            "made_at": self.made_at,
            "files": files,
            "links": [*self.links],
        }


def back_up(stack: Stack, target: Path, *, progress: Progress = _ignore) -> Backup:
    """Stop the services, copy the state, and start the services that ran.

    Args:
        stack: The installation.
        target: The directory to write; it must not exist.
        progress: Told about the copy.

    Raises:
        NotHereError: There is no installation, a part of its state is elsewhere, or the target
            exists.
        NotStartedError: The services did not start again; the backup is whole.
    """
    layout = stack.layout
    if not layout.secrets.is_file():
        raise NotHereError(f"`{layout.home}` holds no installation")
    config = load_config(layout.config, os.environ)
    elsewhere = state_elsewhere(config)
    if elsewhere:
        raise NotHereError(
            f"a part of the state is elsewhere: {', '.join(f'`{name}`' for name in elsewhere)} in "
            "the configuration; back it up there, all parts at one instant"
        )
    target = target.expanduser().absolute()
    data = _cluster_of(layout, str(load_object(layout.secrets)["install_id"])).data
    if os.path.lexists(target) or _is_inside(target, layout.home, data):
        raise NotHereError(f"`{target}` exists, or is inside of the home; name a new directory")
    ran = sorted({service.group for service in stack.status().services})
    stack.stop()
    try:
        with stack.locked():
            return _written(layout, target, progress)
    finally:
        if ran:
            Stack(layout.home, only=ran).start()


def _written(layout: HomeLayout, target: Path, progress: Progress) -> Backup:
    install_id = str(load_object(layout.secrets)["install_id"])
    data = _cluster_of(layout, install_id).data
    unfinished = target.with_name(f".{target.name}.unfinished")
    _remove_unfinished(unfinished)
    unfinished.mkdir(parents=True, mode=0o700)
    left_out = {layout.home / name for name in (*_LEFT_OUT, *_KEYS)} | {data}
    found = [
        *((path, _name(_HOME, path, layout.home)) for path in _below(layout.home, left_out)),
        *((path, _name(_POSTGRES, path, data)) for path in _below(data, set())),
    ]
    links = tuple(name for path, name in found if path.is_symlink() and _leads_out(path))
    state = [(path, name) for path, name in found if name not in links]
    keys = [(layout.home / name, f"{_HOME}/{name}") for name in _KEYS]
    keys = [(path, name) for path, name in keys if path.is_file()]
    count = _Count(sum(path.lstat().st_size for path, _ in (*state, *keys)), progress)
    backup = Backup(
        version=_version(),
        install_id=install_id,
        made_at=dt.datetime.now(tz=dt.UTC).isoformat(timespec="seconds"),
        files={
            STATE: _archive(unfinished / STATE, state, count),
            KEYS: _archive(unfinished / KEYS, keys, count),
        },
        links=links,
    )
    store_json(unfinished / DESCRIPTION, backup.plain())
    unfinished.rename(target)
    return backup


def restore(
    stack: Stack, source: Path, *, keys: Path | None = None, progress: Progress = _ignore
) -> Backup:
    """Write the state of a backup to a home without an installation; start nothing.

    An interrupted call leaves no installation, and can be repeated.

    Args:
        stack: The home.
        source: The directory of the backup.
        keys: The file `keys.tar` if it is kept elsewhere.
        progress: Told about the copy.

    A file of the home that the backup has too is replaced; it is not written into, so what it is
    linked to stays as it is.

    Raises:
        NotHereError: The home has an installation, the backup is incomplete, damaged, of a newer
            version, or inside of the home, or a directory of the home is a symbolic link.
    """
    layout = stack.layout
    backup = described(source)
    files = {STATE: source / STATE, KEYS: keys or source / KEYS}
    count = _Count(2 * sum(size for size, _ in backup.files.values()), progress)
    if _is_inside(source, layout.home) or _is_inside(layout.home, source):
        raise NotHereError(
            f"the backup `{source}` and the home `{layout.home}` contain each other; move the "
            "backup elsewhere, or name another `--home`"
        )
    layout.make()
    with stack.locked():
        if layout.secrets.exists():
            raise NotHereError(
                f"`{layout.home}` holds an installation; name another `--home`, or delete it with "
                "`narthex down --wipe`"
            )
        for name, path in files.items():
            _check(path, backup.files[name], count)
        cluster = _cluster_of(layout, backup.install_id)
        data = cluster.data
        shutil.rmtree(data, ignore_errors=True)
        data.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        data.mkdir(mode=0o700)
        places = {_HOME: layout.home, _POSTGRES: data}
        _extract(files[STATE], places, count)
        postgres.hand_over(cluster)
        if any(is_listening(port) for port in chosen_ports(layout.ports).values()):
            layout.ports.unlink()
        # Last: without it, there is no installation, and the call can be repeated.
        _extract(files[KEYS], places, count)
    return backup


def described(source: Path) -> Backup:
    """Read the description of a backup.

    Raises:
        NotHereError: There is none that this version can read.
    """
    found = load_object(source / DESCRIPTION)
    if found.get("format") != FORMAT:
        raise NotHereError(f"`{source}` holds no backup that this version can read")
    listed = found.get("files")
    try:
        backup = Backup(
            version=str(found["version"]),
            install_id=str(found["install_id"]),
            made_at=str(found["made_at"]),
            files={name: _file_of(listed, name) for name in (STATE, KEYS)},
        )
        is_newer = _numbers(backup.version) > _numbers(_version())
    except (KeyError, TypeError, ValueError):
        raise NotHereError(f"`{source / DESCRIPTION}` is damaged") from None
    if is_newer:
        raise NotHereError(
            f"the backup is of version {backup.version}, and this is {_version()}; "
            "install that version or a later one"
        )
    return backup


def _file_of(listed: object, name: str) -> tuple[int, str]:
    if not isinstance(listed, dict):
        raise TypeError(name)
    return int(listed[name]["bytes"]), str(listed[name]["sha256"])


def state_elsewhere(config: Config) -> list[str]:
    """List the settings that name a place of state outside of the home."""
    return [name for name in _ELSEWHERE if getattr(config, name)]


def _cluster_of(layout: HomeLayout, install_id: str) -> postgres.Cluster:
    return postgres.cluster(layout.home, install_id=install_id, port=0, password="")


def _version() -> str:
    return importlib.metadata.version("narthex")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def _is_inside(path: Path, *places: Path) -> bool:
    """Return whether a path is one of some places, or below one, also behind links."""
    return any(path.resolve().is_relative_to(place.resolve()) for place in places)


def _remove_unfinished(directory: Path) -> None:
    """Remove what an interrupted backup has left.

    Raises:
        NotHereError: Something else has its name.
    """
    if not os.path.lexists(directory):
        return
    is_ours = directory.is_dir() and not directory.is_symlink()
    if not is_ours or {path.name for path in directory.iterdir()} - {STATE, KEYS, DESCRIPTION}:
        raise NotHereError(f"`{directory}` is not an unfinished backup; move it elsewhere")
    shutil.rmtree(directory)


def _leads_out(link: Path) -> bool:
    aim = link.readlink()
    return aim.is_absolute() or ".." in aim.parts


def _name(top: str, path: Path, of: Path) -> str:
    return f"{top}/{path.relative_to(of).as_posix()}"


def _below(directory: Path, left_out: set[Path]) -> Iterator[Path]:
    """Yield the directories, files and links below a directory, each directory first."""
    if not directory.is_dir():
        return
    for path in sorted(directory.iterdir()):
        if path in left_out:
            continue
        if path.is_symlink() or path.is_file():
            yield path
        elif path.is_dir():
            yield path
            yield from _below(path, left_out)


@attrs.define
class _Count:
    total: int
    progress: Progress
    done: int = 0

    def add(self, size: int) -> None:
        self.done += size
        self.progress(min(self.done, self.total), self.total)


class _Hashing(io.RawIOBase):
    """A file that hashes and counts what is written."""

    def __init__(self, file: BinaryIO, count: _Count) -> None:
        self._file = file
        self._count = count
        self._sha = hashlib.sha256()
        self._size = 0

    @property
    def written(self) -> tuple[int, str]:
        """The size in bytes and the SHA-256 digest."""
        return self._size, self._sha.hexdigest()

    @override
    def writable(self) -> bool:
        return True

    @override
    def write(self, data: Buffer, /) -> int:
        content = memoryview(data)
        self._sha.update(content)
        self._size += content.nbytes
        self._count.add(content.nbytes)
        return self._file.write(content)


def _archive(path: Path, members: list[tuple[Path, str]], count: _Count) -> tuple[int, str]:
    with path.open("xb") as file:
        path.chmod(0o600)
        hashing = _Hashing(file, count)
        with tarfile.open(fileobj=hashing, mode="w|", bufsize=_CHUNK) as archive:
            for member, name in members:
                archive.add(member, name, recursive=False)
        file.flush()
        os.fsync(file.fileno())
    return hashing.written


def _check(path: Path, expected: tuple[int, str], count: _Count) -> None:
    sha, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while data := file.read(_CHUNK):
                sha.update(data)
                size += len(data)
                count.add(len(data))
    except FileNotFoundError:
        raise NotHereError(f"`{path}` is missing; without it, nothing can be restored") from None
    if (size, sha.hexdigest()) != expected:
        raise NotHereError(f"`{path}` is damaged: it is not the file that was written")


def _make_room(place: Path, member: tarfile.TarInfo) -> None:
    """Remove the file that a member replaces: extraction would write into it."""
    inside = PurePosixPath(member.name)
    if ".." in inside.parts:
        return  # extraction refuses it
    target = place / inside
    above = target if member.isdir() else target.parent
    if above.exists() and above.resolve() != place.resolve() / above.relative_to(place):
        raise NotHereError(
            f"`{above}` is reached by a symbolic link; restore into an empty home, then link it"
        )
    if os.path.lexists(target) and (target.is_symlink() or not target.is_dir()):
        target.unlink()


def _extract(path: Path, places: dict[str, Path], count: _Count) -> None:
    counted = 0
    with tarfile.open(path) as archive:
        for member in archive:
            top, *inside = PurePosixPath(member.name).parts
            if top not in places or not inside:
                raise NotHereError(f"`{path}` has an unexpected member: {member.name}")
            member.name = "/".join(inside)
            _make_room(places[top], member)
            try:
                archive.extract(member, places[top], filter="data")
            except tarfile.FilterError as error:
                raise NotHereError(f"`{path}` has a member that leads out of it: {error}") from None
            count.add(archive.offset - counted)
            counted = archive.offset

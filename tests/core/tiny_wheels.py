"""Build small wheels, and the locks and installed copies that go with them."""

import functools
import hashlib
import importlib
import io
import shutil
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import attrs

from narthex._ir.code import LockedPackage
from narthex._sdk.closure import libraries, project_locks

_CACHED = functools.cache(len)


@attrs.frozen(kw_only=True)
class TinyWheel:
    """A wheel of pure Python, in a directory of wheels."""

    name: str
    version: str
    path: Path

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    @property
    def line(self) -> str:
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}\n"

    @property
    def locked(self) -> LockedPackage:
        return LockedPackage(
            distribution=self.name, version=self.version, hashes=(bytes.fromhex(self.sha256),)
        )

    def install(self, site: Path) -> None:
        """Unpack it, as an author's environment has it, in place of another version."""
        for old in site.glob(f"{self.name.replace('-', '_')}-*.dist-info"):
            shutil.rmtree(old)
        with zipfile.ZipFile(self.path) as archive:
            archive.extractall(site)


def tiny_wheel(
    wheels: Path,
    name: str,
    version: str,
    files: Mapping[str, str | bytes],
    *,
    requires: tuple[str, ...] = (),
    links: Mapping[str, str] | None = None,
) -> TinyWheel:
    """Write a wheel with some files; the names of files may be what an attacker writes."""
    wheels.mkdir(parents=True, exist_ok=True)
    plain = name.replace("-", "_")
    info = f"{plain}-{version}.dist-info"
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata = head + "".join(f"Requires-Dist: {one}\n" for one in requires)
    content: dict[str, str | bytes] = {
        **files,
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*content, f"{info}/RECORD"])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in [*content.items(), (f"{info}/RECORD", record)]:
            archive.writestr(zipfile.ZipInfo(path, (2024, 1, 1, 0, 0, 0)), text, 8)
        for path, target in (links or {}).items():
            link = zipfile.ZipInfo(path, (2024, 1, 1, 0, 0, 0))
            link.external_attr = 0o120777 << 16
            archive.writestr(link, target)
    wheel = wheels / f"{plain}-{version}-py3-none-any.whl"
    wheel.write_bytes(buffer.getvalue())
    return TinyWheel(name=name, version=version, path=wheel)


def forget(*modules: str) -> None:
    """Forget some modules and all that is known of installed packages, as a new process would."""
    importlib.invalidate_caches()
    for module in (libraries, project_locks):
        for one in vars(module).values():
            if isinstance(one, type(_CACHED)):
                one.cache_clear()
    for name in modules:
        sys.modules.pop(name, None)

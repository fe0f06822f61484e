"""The stores of the Data Context: files that no reader finds half written, and counts only."""

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from great_expectations.core.expectation_validation_result import (
    ExpectationSuiteValidationResult,
    ExpectationSuiteValidationResultSchema,
)
from great_expectations.data_context.store import ValidationResultsStore
from great_expectations.data_context.store.tuple_store_backend import TupleFilesystemStoreBackend
from typing_extensions import override

from narthex._base import Json
from narthex_expectations.audit_results import COUNTS, OF_TYPES

_META: Final = (
    "active_batch_definition",
    "checkpoint_id",
    "great_expectations_version",
    "run_id",
    "validation_id",
    "validation_time",
)
"""What is stored about a validation itself; the others include a fingerprint of the rows."""

_ERROR_NAME: Final = re.compile(r"^(?:\w+\.)*(\w+)(?::|$)")


class AtomicFilesBackend(TupleFilesystemStoreBackend):
    """A store in files: a reader finds the old content of a file or the new one, never a part.

    A file whose content stays the same is not written, and a directory without files is removed.
    """

    @override
    def _set(self, key: tuple[str, ...], value: str | bytes, **_: object) -> str:
        path = Path(self.full_base_directory, self._convert_key_to_filepath(key))
        content = value.encode() if isinstance(value, str) else value
        if not path.is_file() or path.read_bytes() != content:
            _replace(path, content)
        return str(path)

    @override
    def remove_key(self, key: object) -> bool:
        parts = key if isinstance(key, tuple) else key.to_tuple()  # type: ignore[attr-defined]
        base = Path(self.full_base_directory)
        path = base / self._convert_key_to_filepath(parts)
        path.unlink(missing_ok=True)
        for directory in path.parents:
            if directory == base or not directory.is_relative_to(base):
                break
            try:
                directory.rmdir()
            except OSError:  # it has other files, or is gone
                break
        return True


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # It is not forced to the disk: after a power failure, an audit writes it again.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".new")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


class CountedResultsStore(ValidationResultsStore):
    """A store of validation results that keeps counts alone, whatever a result has.

    So no value and no key of a row is ever in a file, nor in the Data Docs, which are made of what
    this store has: personal data would outlive its erasure there.
    """

    @override
    def serialize(self, value: ExpectationSuiteValidationResult) -> str:
        counted = counts_of(value.to_json_dict())
        text: str = ExpectationSuiteValidationResultSchema().dumps(
            counted, indent=2, sort_keys=True
        )
        return text


def counts_of(result: Mapping[str, Json]) -> dict[str, Json]:
    """Return the parts of a validation result that may be stored.

    They are the expectations, as they were declared, whether they are met, counts, and types of
    columns. Of an error only the name remains, as messages can quote a value.
    """
    meta, results = result.get("meta"), result.get("results")
    return {
        "success": result["success"],
        "statistics": result["statistics"],
        "suite_name": result["suite_name"],
        "suite_parameters": {},
        "meta": _counted_meta(meta if isinstance(meta, dict) else {}),
        "results": [_counted(one) for one in results if isinstance(one, dict)]
        if isinstance(results, list)
        else [],
    }


def _counted_meta(meta: Mapping[str, Json]) -> dict[str, Json]:
    batch = meta.get("active_batch_definition")
    # The page of a result looks for the name of the asset there.
    spec = {"data_asset_name": batch["data_asset_name"]} if isinstance(batch, dict) else {}
    return {name: meta[name] for name in _META if name in meta} | {"batch_spec": spec}


def _counted(one: Mapping[str, Json]) -> dict[str, Json]:
    config, counted = one.get("expectation_config"), one.get("result")
    kind = config.get("type") if isinstance(config, dict) else None
    counts = counted if isinstance(counted, dict) else {}
    return {
        "success": one["success"],
        "expectation_config": config,
        "meta": {},
        "result": {
            name: counts[name]
            for name in COUNTS
            if name in counts and (name != "observed_value" or kind in OF_TYPES)
        },
        "exception_info": _error_of(one.get("exception_info")),
    }


def _error_of(info: Json) -> dict[str, Json]:
    """Return what is stored of an error: nothing but its name."""
    found = _raised(info)
    return {
        "raised_exception": found is not None,
        "exception_message": found and f"it could not be evaluated: {_name_of(found)}",
        "exception_traceback": found and "The result of the audit has the message.",
    }


def _raised(info: Json) -> dict[str, Json] | None:
    if not isinstance(info, dict):
        return None
    if "raised_exception" in info:
        return info if info["raised_exception"] is True else None
    # There is one entry for each metric that could not be computed.
    return next((one for entry in info.values() if (one := _raised(entry))), None)


def _name_of(error: Mapping[str, Json]) -> str:
    """Return the name of the first error of a traceback, such as `TypeError`."""
    for line in str(error.get("exception_traceback") or "").splitlines():
        found = _ERROR_NAME.match(line)
        if found and found[1].endswith(("Error", "Exception", "Operation")):
            return found[1]
    return "an error"

"""Files below the files root or in a bucket of S3, and Delta and Hudi tables."""

import re
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Final, Self

import attrs

from narthex._base.times import SECOND_US
from narthex._connectors.addresses import object_store
from narthex._connectors.kinds import (
    ROWS_AND_ENVELOPES,
    ConnectorFault,
    ConnectorKind,
    Deletes,
    FilesPlace,
    Input,
    Outlet,
    PolicyFacts,
    SinkKind,
    SourceKind,
)
from narthex._connectors.named import host_of
from narthex._connectors.parts import Parts
from narthex._ir.connections import Credential, Csv, FileFormat, JsonLines, Parquet, TableFormat
from narthex._ir.connections import Files as FilesEntity
from narthex._ir.entities import Cdc

__all__ = ["CSV", "KIND", "S3", "Files"]


_STATIC: Final = re.compile(r"[a-zA-Z0-9._=\-]+")
_ENDING: Final = re.compile(r"\*\.[a-zA-Z0-9.]+")
_SOME_DAY: Final = datetime(2020, 1, 2, 3, 4, 5)  # noqa: DTZ001 (only its text is looked at)


def CSV(  # noqa: N802 (it reads as a value)
    delimiter: str = ",", headers: list[str] | None = None, null: str = ""
) -> Csv:
    """Delimited text.

    Args:
        delimiter: One character.
        headers: Column names; by default, the first line contains them.
        null: The text that represents a missing value, such as `NA`.

    Raises:
        DefinitionErrors: The delimiter is not one character.
    """
    parts = Parts("CSV")
    if len(delimiter) != 1:
        parts.refuse(f"`delimiter` got `{delimiter}`; expected one character")
    parts.report()
    return Csv(delimiter=delimiter, headers=tuple(headers) if headers else None, null=null)


def _format(format: object, parts: Parts) -> FileFormat:
    match format:
        case Csv() | Parquet() | JsonLines():
            return format
        case "csv":
            return Csv()
        case "parquet":
            return Parquet()
        case "json" | "jsonl":
            return JsonLines()
        case "delta" | "hudi":
            return TableFormat(kind=str(format))
        case _:
            parts.refuse(f"`format` got `{format!r}`; expected csv, json, parquet, hudi or delta")
            return Csv()


@attrs.frozen
class Files:
    """Files that the platform can read; relative paths start from its files root."""

    name: str

    def path(self, path: str, format: object = "csv") -> FilesEntity:
        """Return the files at a path or an `s3://` address, which may contain `*`, `**` and `?`.

        Raises:
            DefinitionErrors: The name or the path is empty, or the format is unknown.
        """
        parts = Parts("Files")
        made = FilesEntity(
            name=parts.name(self.name),
            path=parts.address(path, "path"),
            format=_format(format, parts),
        )
        parts.report()
        return made


@attrs.frozen
class S3:
    """Files in S3 or a compatible store; credentials by reference, or the platform's own."""

    name: str
    aws_access_key_id: Credential | None = attrs.field(default=None, repr=False)
    aws_secret_access_key: Credential | None = attrs.field(default=None, repr=False)
    role_arn: str | None = None

    def bucket(
        self,
        bucket_name: str,
        prefix: str | None = None,
        path: str | None = None,
        format: object = "csv",
        presorted: bool = False,
        spread: str | None = None,
    ) -> FilesEntity:
        """Return the files below a prefix or at a path; exactly one of the two.

        Args:
            bucket_name: The bucket.
            prefix: All files below it are read.
            path: Its parts are plain, `*`, `**`, or date parts such as `%Y-%m-%d`; the last one is
                an ending such as `*.csv`.
            format: `csv`, `json`, `parquet`, `delta`, `hudi`, or `CSV(…)`.
            presorted: Refused, as rows need no order.
            spread: The greatest distance between the dates of a path, in UTC, and its rows' event
                times. Files that are further from `since` and `until` of the source are not read.

        Raises:
            DefinitionErrors: Both or neither of prefix and path, `spread` without dates in `path`
                or for a table, or an inline credential instead of a reference.
        """
        parts = Parts("S3")
        if (prefix is None) == (path is None):
            parts.refuse("a bucket needs either `prefix` or `path`")
        if presorted:
            parts.unsupported("presorted", "rows of files need no order")
        if spread is not None and "%Y" not in (path or ""):
            parts.refuse("`spread` requires a `path` with dates, such as `%Y-%m-%d/*.csv`")
        if spread is not None and format in {"delta", "hudi"}:
            parts.refuse(f"`spread` is for files; found the table format `{format}`")
        if (self.aws_access_key_id is None) != (self.aws_secret_access_key is None):
            parts.refuse("`aws_access_key_id` and `aws_secret_access_key` must be set together")
        below = path if path is not None else f"{(prefix or '').rstrip('/')}/**"
        if path is not None:
            _check_path(path, parts)
        made = FilesEntity(
            name=parts.name(self.name),
            path=f"s3://{parts.text(bucket_name, '`bucket_name`')}/{below.lstrip('/')}",
            format=_format(format, parts),
            access_key=parts.credential(self.aws_access_key_id, "aws_access_key_id"),
            secret_key=parts.credential(self.aws_secret_access_key, "aws_secret_access_key"),
            role_arn=self.role_arn,
            spread_us=parts.duration(spread, "spread"),
        )
        parts.report()
        return made

    @classmethod
    def get(cls, name: str) -> Self:
        """Name a connection of the platform, which `narthex connection set` stores.

        Raises:
            DefinitionErrors: It is not the name of a connection.
        """
        return cls(name, role_arn=host_of(name))


def _check_path(path: str, parts: Parts) -> None:
    pieces = path.removesuffix("/").split("/")
    for piece, after in pairwise([*pieces, None]):
        wrong = _piece_wrong(piece or "", is_last=after is None)
        if wrong:
            parts.refuse(f"`path` has the part `{piece}`: {wrong}")


def _piece_wrong(piece: str, *, is_last: bool) -> str:
    if piece in {"*", "**"}:
        return ""
    if "*" in piece:
        if is_last and _ENDING.fullmatch(piece):
            return ""
        return "`*` must be a whole part, or precede the extension of the last part"
    if "%" in piece:
        try:
            datetime.strptime(_SOME_DAY.strftime(piece), piece)  # noqa: DTZ007 (its form only)
        except ValueError:
            return "its date directives are invalid"
        return ""
    return (
        ""
        if _STATIC.fullmatch(piece)
        else "letters, digits, use letters, digits, `-`, `_`, `.` and `=`"
    )


def _outlets(files: FilesEntity, endpoint_url: str) -> Iterator[Outlet]:
    if "://" in files.path:
        keys = (files.access_key, files.secret_key)
        yield Outlet(
            what="`path`",
            targets=(object_store(endpoint_url),),
            credentials=tuple(key for key in keys if key is not None),
            is_fixed=True,
        )


def _place(files: FilesEntity) -> FilesPlace:
    has_own_keys = files.access_key is not None and files.secret_key is not None
    return FilesPlace(path=files.path, has_own_keys=has_own_keys)


def _no_members(files: FilesEntity) -> str:
    return "" if isinstance(files.format, JsonLines) else "only JSON has them"


def _unsupported(files: FilesEntity) -> Iterator[ConnectorFault]:
    if isinstance(files.format, TableFormat) and files.format.kind != "delta":
        kind = files.format.kind
        yield ConnectorFault(f"files in the format {kind} are", "write csv, json, parquet or delta")
    if files.role_arn is not None:
        yield ConnectorFault(
            "files behind a role of AWS are", "give keys, or leave them to the platform"
        )


def _sink_faults(files: FilesEntity) -> Iterator[ConnectorFault]:
    if not files.path.startswith("s3://"):
        yield ConnectorFault(f"a sink writes files to S3; found `{files.path}`")
    if files.format != TableFormat(kind="delta"):
        yield ConnectorFault('a sink into S3 needs `format="delta"`')
    if files.access_key is not None or files.role_arn is not None:
        yield ConnectorFault(
            "a sink into S3 writes with the platform's own credentials; leave its own out"
        )


KIND: Final = ConnectorKind(
    name="files",
    title="Files",
    text="Files below the platform's files root, or in a bucket of S3 or a compatible store: CSV, "
    "JSON lines, Parquet, and the change log of Delta tables. A sink writes a Delta table.",
    record=FilesEntity,
    declared_by=((Files, "path"), (S3, "bucket")),
    connection=("name", "access_key", "secret_key", "role_arn"),
    example=("bucket", "prefix"),
    policy=PolicyFacts(
        text="The platform's object store, or Amazon's, with the keys; the path by the rules "
        "`[[files]]`.",
        outlets=_outlets,
        place=_place,
    ),
    source=SourceKind(
        identity=lambda files: f"files:{files.name}:{files.path}",
        input=Input.FILES,
        reason="a live job polls for new files",
        cdc=ROWS_AND_ENVELOPES | {Cdc.NATIVE},
        has_change_log=lambda files: isinstance(files.format, TableFormat),
        no_members=_no_members,
        unsupported=_unsupported,
    ),
    sink=SinkKind(
        title="S3",
        where="S3",
        identity=lambda files: f"files:{files.path}",
        is_bulk=True,
        writer="narthex_spark_apps.sinks.delta:open_target",
        every_us=60 * SECOND_US,
        faults=_sink_faults,
        erasing="delete the rows with the keys from the Delta table, then vacuum it: its earlier "
        "versions have them until then",
        deletes=Deletes.ALWAYS,
        keeps="earlier versions of the Delta table, until it is vacuumed",
    ),
)

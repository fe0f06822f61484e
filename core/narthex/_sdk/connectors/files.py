"""Connectors of files: below a path, or in a bucket of S3."""

import re
from datetime import datetime
from itertools import pairwise
from typing import Final, NoReturn

import attrs

from narthex._ir.entities import Credential, Csv, FileFormat, JsonLines, Parquet, TableFormat
from narthex._ir.entities import Files as FilesEntity
from narthex._sdk.connectors.parts import Parts, not_kept

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
        presorted: bool = False,  # noqa: ARG002 (Fennel's signature)
        spread: str | None = None,
    ) -> FilesEntity:
        """Return the files below a prefix or at a path; exactly one of the two.

        Args:
            bucket_name: The bucket.
            prefix: All files below it are read.
            path: Its parts are plain, `*`, `**`, or date parts such as `%Y-%m-%d`; the last one is
                an ending such as `*.csv`.
            format: `csv`, `json`, `parquet`, `delta`, `hudi`, or `CSV(…)`.
            presorted: Accepted for compatibility; rows need no order.
            spread: The greatest distance between the dates of a path and its rows' event times.

        Raises:
            DefinitionErrors: Both or neither of prefix and path, `spread` without `path`, or an
                inline credential instead of a reference.
        """
        parts = Parts("S3")
        if (prefix is None) == (path is None):
            parts.refuse("a bucket needs either `prefix` or `path`")
        if spread is not None and path is None:
            parts.refuse("`spread` requires `path`")
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

    @staticmethod
    def get(name: str) -> NoReturn:
        """Raise an error, as connections are not configured in a console."""
        raise not_kept("S3", name)


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

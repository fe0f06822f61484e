"""A connector of another package: text files with one row per line, cells between separators."""

from typing import Final

import attrs

from narthex.connector_kinds import (
    Connector,
    ConnectorFault,
    ConnectorKind,
    Credential,
    FilesPlace,
    Input,
    Parts,
    PolicyFacts,
    SourceKind,
    record,
)


@record
@attrs.frozen(kw_only=True)
class LineFilesPath(Connector):
    """Text files below the files root.

    Attributes:
        columns: The names of the cells of a line.
        passphrase: Decrypts the files where they are read; no server receives it.
    """

    name: str
    path: str
    columns: tuple[str, ...]
    separator: str = "|"
    passphrase: Credential | None = None


@attrs.frozen
class LineFiles:
    """Text files with one row per line."""

    name: str
    passphrase: Credential | None = None

    def path(self, path: str, columns: list[str], separator: str = "|") -> LineFilesPath:
        """Declare the files at a path.

        Raises:
            DefinitionErrors: A part is missing, or the separator is not one character.
        """
        parts = Parts("LineFiles")
        if len(separator) != 1:
            parts.refuse(f"`separator` got `{separator}`; expected one character")
        declared = LineFilesPath(
            name=parts.name(self.name),
            path=parts.text(path, "`path`"),
            columns=tuple(columns),
            separator=separator,
            passphrase=parts.credential(self.passphrase, "passphrase"),
        )
        parts.report()
        return declared


def _faults(files: LineFilesPath) -> tuple[ConnectorFault, ...]:
    if files.columns:
        return ()
    return (ConnectorFault("line files have no `columns`", "name the cells of a line"),)


KIND: Final = ConnectorKind(
    name="line_files",
    title="Line files",
    text="Text files below the files root, with one row per line.",
    record=LineFilesPath,
    declared_by=((LineFiles, "path"),),
    policy=PolicyFacts(
        text="No server; the path by the rules `[[files]]`.",
        outlets=lambda _, __: (),
        place=lambda files: FilesPlace(path=files.path),
    ),
    source=SourceKind(
        identity=lambda files: f"lines:{files.path}",
        input=Input.POLLED,
        reason="files are read again and again",
        faults=_faults,
        reader="line_files.reader:LineFilesSource",
    ),
    install="line-files[reader]",
)

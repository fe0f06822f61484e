"""Schemas that a registry keeps: Confluent's protocol, as far as who reads records needs it.

Two questions: a schema by its id, and a version of a subject, which is how schemas refer to each
other. A schema of an id never changes, so each is asked for once.
"""

import base64
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping

import attrs

from narthex.connections import Encoding, RegistryFormat
from narthex.credentials import reveal
from narthex.records import Json
from narthex.secrets import Provider

TIMEOUT_S = 10.0
_NOT_FOUND = 404


class RegistryError(OSError):
    """The registry does not answer, or lets nobody in; it may do so later."""


class UnknownSchemaError(LookupError):
    """The registry has no such schema."""


@attrs.frozen(kw_only=True)
class Schema:
    """One schema as its registry keeps it.

    Attributes:
        kind: `AVRO` or `PROTOBUF`.
        text: JSON for Avro; base64 of a `FileDescriptorProto` for Protobuf.
        references: What it imports, by the name that it has for it, in the registry's order.
    """

    kind: str
    text: str
    references: tuple[tuple[str, "Schema"], ...] = ()


@attrs.frozen(kw_only=True)
class SchemaRegistry:
    """A registry, and what it wants to be told.

    Attributes:
        url: With no `/` at its end.
        authorization: The header's value; empty sends none.
    """

    url: str
    encoding: Encoding
    authorization: str = attrs.field(default="", repr=False)
    ca_file: str = ""

    @classmethod
    def of(cls, format: RegistryFormat, secrets: Provider, *, ca_file: str) -> "SchemaRegistry":
        """Give the registry of a format.

        Raises:
            SecretMissing: A secret that lets us in is not there.
        """
        authorization = ""
        if format.token is not None:
            authorization = f"Bearer {reveal(format.token, secrets)}"
        elif format.username is not None and format.password is not None:
            pair = f"{reveal(format.username, secrets)}:{reveal(format.password, secrets)}"
            authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return cls(
            url=format.url.rstrip("/"),
            encoding=format.encoding,
            authorization=authorization,
            ca_file=ca_file,
        )

    def schema(self, schema_id: int) -> Schema:
        """Give a schema with all that it refers to.

        Raises:
            UnknownSchemaError: There is none of that id.
            RegistryError: The registry does not answer.
        """
        return self._parsed(self._ask(f"schemas/ids/{schema_id}"), f"the schema {schema_id}")

    def _version(self, subject: str, version: int) -> Schema:
        quoted = urllib.parse.quote(subject, safe="")
        answer = self._ask(f"subjects/{quoted}/versions/{version}", "deleted=true")
        return self._parsed(answer, f"version {version} of `{subject}`")

    def _parsed(self, answer: Mapping[str, Json], what: str) -> Schema:
        text, kind, referred = (
            answer.get("schema"),
            answer.get("schemaType", "AVRO"),
            answer.get("references"),
        )
        if not isinstance(text, str):
            raise RegistryError(f"`{self.url}` has {what} without its text")
        if kind != self.encoding.name:
            raise UnknownSchemaError(f"{what} is of {kind}; the source says {self.encoding.name}")
        found = []
        for one in referred if isinstance(referred, list) else []:
            match one:
                case {"name": str(name), "subject": str(subject), "version": int(version)}:
                    found.append((name, self._version(subject, version)))
                case _:
                    raise RegistryError(f"`{self.url}` has {what} with the reference {one!r}")
        return Schema(kind=str(kind), text=text, references=tuple(found))

    def _ask(self, path: str, more: str = "") -> Mapping[str, Json]:
        asked = [more] if more else []
        if self.encoding is Encoding.PROTOBUF:
            asked.append("format=serialized")
        url = f"{self.url}/{path}" + (f"?{'&'.join(asked)}" if asked else "")
        headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
        if self.authorization:
            headers["Authorization"] = self.authorization
        # The address was checked to be one of http or https where the author wrote it.
        request = urllib.request.Request(url, headers=headers)  # noqa: S310
        trusted = ssl.create_default_context(cafile=self.ca_file or None)
        try:
            with urllib.request.urlopen(  # noqa: S310
                request, timeout=TIMEOUT_S, context=trusted
            ) as response:
                said = json.loads(response.read())
        except urllib.error.HTTPError as error:
            if error.code == _NOT_FOUND:
                raise UnknownSchemaError(f"`{self.url}` has no `{path}`") from None
            raise RegistryError(f"`{self.url}` answered {error.code} to `{path}`") from None
        except (OSError, ValueError) as error:
            raise RegistryError(f"`{self.url}` did not answer: {error}") from None
        if not isinstance(said, dict):
            raise RegistryError(f"`{self.url}` answered no object to `{path}`")
        return said

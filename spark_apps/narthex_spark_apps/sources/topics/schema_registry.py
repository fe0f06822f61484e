"""Schemas from a registry: the part of Confluent's protocol that reading records requires.

It has two requests: a schema by its id, and a version of a subject, by which schemas refer to
each other. The schema of an id never changes, so each is requested once.
"""

import base64
import contextlib
import http.client
import json
import ssl
import urllib.parse
from collections.abc import Mapping

import attrs

from narthex._base import Json
from narthex._connectors import EgressRules, HttpAddress, registry_address
from narthex._ir import Encoding, RegistryFormat
from narthex_spark_apps.platform.author_secrets import AuthorSecrets
from narthex_spark_apps.platform.outgoing_connections import Bounds, PinnedHttp, read_bounded

TIMEOUT_S = 10.0
ANSWER = Bounds(greatest_bytes=8 * 1024 * 1024, within_s=30.0)
_OK, _NOT_FOUND = 200, 404


class RegistryError(OSError):
    """The registry does not answer, or denies access; a retry may succeed."""


class UnknownSchemaError(LookupError):
    """The registry has no such schema."""


@attrs.frozen(kw_only=True)
class RegisteredSchema:
    """One schema as its registry stores it.

    Attributes:
        kind: `AVRO` or `PROTOBUF`.
        text: JSON for Avro; base64 of a `FileDescriptorProto` for Protobuf.
        references: The schemas that it imports, by their import names, in the registry's order.
    """

    kind: str
    text: str
    references: tuple[tuple[str, "RegisteredSchema"], ...] = ()


@attrs.frozen(kw_only=True)
class SchemaRegistry:
    """A registry and the headers for its requests.

    Attributes:
        authorization: The header's value; empty sends none.
    """

    address: HttpAddress
    egress: EgressRules
    encoding: Encoding
    authorization: str = attrs.field(default="", repr=False)
    ca_file: str = ""

    @classmethod
    def of(
        cls, format: RegistryFormat, secrets: AuthorSecrets, *, ca_file: str
    ) -> "SchemaRegistry":
        """Return the registry of a format.

        Raises:
            SecretMissing: A secret for the registry is missing.
            SecretWithheld: The registry is not allowed to receive the secret.
            PolicyInvalid: The policy cannot be read.
        """
        address = registry_address(format)
        to = (address.target,)
        authorization = ""
        if format.token is not None:
            authorization = f"Bearer {secrets.reveal(format.token, to)}"
        elif format.username is not None and format.password is not None:
            username = secrets.reveal(format.username, to)
            pair = f"{username}:{secrets.reveal(format.password, to)}"
            authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return cls(
            address=address,
            egress=secrets.egress(),
            encoding=format.encoding,
            authorization=authorization,
            ca_file=ca_file,
        )

    @property
    def url(self) -> str:
        """The address of the registry, for messages."""
        return f"{self.address.scheme}://{self.address.target}{self.address.path}"

    def schema(self, schema_id: int) -> RegisteredSchema:
        """Return a schema with all schemas that it refers to.

        Raises:
            UnknownSchemaError: The registry has no schema with this id.
            RegistryError: The registry does not answer.
        """
        return self._parsed(self._ask(f"schemas/ids/{schema_id}"), f"the schema {schema_id}")

    def _version(self, subject: str, version: int) -> RegisteredSchema:
        quoted = urllib.parse.quote(subject, safe="")
        answer = self._ask(f"subjects/{quoted}/versions/{version}", "deleted=true")
        return self._parsed(answer, f"version {version} of `{subject}`")

    def _parsed(self, answer: Mapping[str, Json], what: str) -> RegisteredSchema:
        text, kind, referred = (
            answer.get("schema"),
            answer.get("schemaType", "AVRO"),
            answer.get("references"),
        )
        if not isinstance(text, str):
            raise RegistryError(f"`{self.url}` has {what} without the schema text")
        if kind != self.encoding.name:
            raise UnknownSchemaError(
                f"{what} is of {kind}; the source declares {self.encoding.name}"
            )
        found = []
        for one in referred if isinstance(referred, list) else []:
            match one:
                case {"name": str(name), "subject": str(subject), "version": int(version)}:
                    found.append((name, self._version(subject, version)))
                case _:
                    raise RegistryError(f"`{self.url}` has {what} with the reference {one!r}")
        return RegisteredSchema(kind=str(kind), text=text, references=tuple(found))

    def _ask(self, path: str, more: str = "") -> Mapping[str, Json]:
        parameters = [more] if more else []
        if self.encoding is Encoding.PROTOBUF:
            parameters.append("format=serialized")
        query = f"?{'&'.join(parameters)}" if parameters else ""
        try:
            status, body = self._call(f"{self.address.path}/{path}{query}")
            decoded = json.loads(body) if status == _OK else None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise RegistryError(f"`{self.url}` did not respond: {error}") from None
        if status == _NOT_FOUND:
            raise UnknownSchemaError(f"`{self.url}` has no `{path}`")
        if status != _OK:
            raise RegistryError(f"`{self.url}` returned {status} for `{path}`")
        if not isinstance(decoded, dict):
            raise RegistryError(f"`{self.url}` returned no JSON object for `{path}`")
        return decoded

    def _call(self, path: str) -> tuple[int, bytes]:
        """Send one request; a redirect is returned like any other answer."""
        headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
        if self.authorization:
            headers["Authorization"] = self.authorization
        tls = None
        if self.address.scheme == "https":
            tls = ssl.create_default_context(cafile=self.ca_file or None)
        connection = PinnedHttp(self.address, egress=self.egress, timeout_s=TIMEOUT_S, tls=tls)
        with contextlib.closing(connection):
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, read_bounded(answer, ANSWER)

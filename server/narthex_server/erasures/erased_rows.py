"""Find the rows of erased keys among the raw rows of endpoints.

The keys are known as keyed digests alone: HMAC-SHA256 with a key that is derived from the
installation's key for secrets, so that nobody who reads the ledger can guess them.
"""

import hmac
import json
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import attrs

from narthex._base import Json, from_plain, to_plain
from narthex._formats import MistypedError, coerce, render_cell
from narthex._ir import (
    Blueprint,
    Cell,
    Column,
    ColumnRef,
    ComputedByCode,
    Dataset,
    Definitions,
    Schema,
    Source,
    SourceJobSpec,
    WebhookEndpoint,
)
from narthex._runtime.ingest import ParsedRow, RekeyedRow, RowParser
from narthex_ledger import BlockedSource, Ledger, Sealer, TenantId
from narthex_server.errors import InvalidRequest

KNOWN_S: Final = 0.5
"""How long it is known which endpoints have blocked keys."""

_NOW_US: Final = 0
"""The value of `now()`, which no erase key depends on."""


@attrs.frozen
class Digests:
    """Makes the keyed digests of keys."""

    _key: bytes = attrs.field(repr=False)

    @classmethod
    def of(cls, sealer: Sealer) -> "Digests":
        """Use the key that rotations of the key for secrets keep."""
        return cls(sealer.keys.erased_keys)

    def of_key(self, dataset: str, key: Mapping[str, Json]) -> bytes:
        """Return the digest of a key of a dataset; its values are as in JSON, by field."""
        text = json.dumps([dataset, sorted(key.items())], separators=(",", ":"))
        return hmac.digest(self._key, text.encode(), "sha256")

    def of_request(self, *parts: Json) -> bytes:
        """Return the digest of a request, from which its keys can't be guessed."""
        text = json.dumps(["request", *parts], separators=(",", ":"), sort_keys=True)
        return hmac.digest(self._key, text.encode(), "sha256")


@attrs.frozen(kw_only=True)
class KeyFinder:
    """Finds the erase keys of raw rows of one source.

    Rows that the source's filters exclude, and those that do not fit, have keys too.
    """

    dataset: str
    fields: tuple[Column, ...]
    source: Source
    _parser: RowParser

    @classmethod
    def of(
        cls, dataset: str, source: Source, schema: Schema, fields: Collection[str]
    ) -> "KeyFinder":
        """Prepare the finder of a source."""
        bare = attrs.evolve(source, where=None, sample=None, since_us=None, until_us=None)
        return cls(
            dataset=dataset,
            fields=tuple(key for key in schema.keys if key.name in fields),
            source=source,
            parser=RowParser.of(bare, schema),
        )

    @classmethod
    def of_form(cls, dataset: str, form: Json) -> "KeyFinder":
        """Prepare the finder that `form` described."""
        match form:
            case {"source": source, "schema": schema, "fields": list(fields)}:
                found, columns = from_plain(source), from_plain(schema)
                if isinstance(found, Source) and isinstance(columns, Schema):
                    return cls.of(dataset, found, columns, [str(field) for field in fields])
            case _:
                pass
        raise ValueError(f"`{dataset}` has a blocked source of another form")

    def keys(self, row: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
        """Yield the keys that a raw row has: two if it changes the key of a row."""
        if not self._parser.runs_code:
            match self._parser.parse_rows([row], now_us=[_NOW_US])[0]:
                case ParsedRow(cells=cells):
                    yield self._rendered(cells)
                case RekeyedRow(ended=ended, admitted=admitted):
                    yield self._rendered(ended.cells)
                    yield self._rendered(admitted.cells)
                case _:
                    pass
        for part in (row, row.get("before"), row.get("after")):
            if isinstance(part, dict):
                key = self._raw_key(part)
                if key is not None:
                    yield key

    @property
    def columns(self) -> dict[str, frozenset[str]]:
        """The raw columns that each field is read from."""
        places = {field.name: _raw_place(self.source, field.name) for field in self.fields}
        return {name: frozenset({[column, *path][-1]}) for name, (column, path) in places.items()}

    def _rendered(self, cells: Mapping[str, Cell]) -> dict[str, Json]:
        return {field.name: render_cell(cells[field.name], field.type) for field in self.fields}

    def _raw_key(self, row: Mapping[str, Json]) -> dict[str, Json] | None:
        try:
            cells = {
                field.name: coerce(_raw_value(row, _raw_place(self.source, field.name)), field.type)
                for field in self.fields
            }
        except MistypedError:
            return None
        return self._rendered(cells)


def form_of(source: Source, schema: Schema, fields: Sequence[str]) -> Json:
    """Describe a source for `KeyFinder.of_form`."""
    return {"source": to_plain(source), "schema": to_plain(schema), "fields": [*fields]}


def endpoint_of(source: Source) -> str | None:
    """Return the endpoint of a source, `webhook/endpoint`; None for other sources."""
    connector = source.connector
    if isinstance(connector, WebhookEndpoint):
        return f"{connector.webhook}/{connector.endpoint}"
    return None


def erase_fields(dataset: Dataset) -> tuple[Column, ...]:
    """Return the erase keys of a dataset, in the order of its fields."""
    names = {field.name for field in dataset.schema.fields if field.erase_key}
    return tuple(key for key in dataset.schema.keys if key.name in names)


def why_not_found(dataset: Dataset) -> Iterator[str]:
    """Yield why the erase keys of some raw rows could not be found."""
    names = {field.name for field in erase_fields(dataset)}
    for source in dataset.sources:
        parser = RowParser.of(attrs.evolve(source, where=None, sample=None), dataset.schema)
        for name, preproc in source.preproc:
            if name not in names or isinstance(preproc, ColumnRef):
                continue
            if isinstance(preproc, ComputedByCode) or parser.runs_code:
                yield f"Python code of a source computes the erase key `{name}` of `{dataset.name}`"


def keys_of(dataset: Dataset, rows: Sequence[Mapping[str, Json]]) -> list[dict[str, Json]]:
    """Return the keys of a request, each once.

    Raises:
        InvalidRequest: A row has other columns than the erase keys, or a value of another type.
    """
    fields = erase_fields(dataset)
    wanted = ", ".join(f"`{field.name}`" for field in fields)
    if not fields:
        raise InvalidRequest(
            f"`{dataset.name}` has no erase key; mark its keys with "
            "`field(key=True, erase_key=True)`"
        )
    found: dict[str, dict[str, Json]] = {}
    for number, row in enumerate(rows):
        if set(row) != {field.name for field in fields}:
            raise InvalidRequest(
                f"row {number} does not name exactly the erase keys of `{dataset.name}`: {wanted}"
            )
        try:
            key = {
                field.name: render_cell(coerce(row[field.name], field.type), field.type)
                for field in fields
            }
        except MistypedError:
            raise InvalidRequest(
                f"row {number} has a value that is not of the type of its erase key"
            ) from None
        found[json.dumps(key, sort_keys=True)] = key
    return list(found.values())


def follow_sources(ledger: Ledger, tenant: TenantId, blueprint: Blueprint) -> None:
    """Let the sources that a commit deploys leave out the rows of blocked keys, as before."""
    blocked = ledger.erasures.blocked_fields(tenant)
    found = [
        BlockedSource(
            endpoint=endpoint,
            dataset=spec.dataset,
            form=form_of(spec.source, spec.schema, fields),
        )
        for asset in blueprint.assets
        if isinstance(spec := asset.spec, SourceJobSpec)
        for dataset, fields in blocked
        if dataset == spec.dataset and (endpoint := endpoint_of(spec.source)) is not None
    ]
    if found:
        ledger.erasures.follow(tenant, found)


def unblockable(ledger: Ledger, tenant: TenantId, definitions: Definitions) -> Iterator[str]:
    """Yield why rows of blocked keys could not be left out of some definitions."""
    blocked = ledger.erasures.blocked_fields(tenant)
    for dataset in definitions.datasets:
        for name, fields in blocked:
            if name != dataset.name:
                continue
            if not dataset.sources or set(fields) - {key.name for key in dataset.schema.keys}:
                names = ", ".join(f"`{field}`" for field in fields)
                yield f"`{name}` has erased keys: it must have sources and the keys {names}"
            for source in dataset.sources:
                if endpoint_of(source) is None:
                    yield f"`{name}` has erased keys: all of its sources must be webhooks"
            yield from why_not_found(dataset)


@attrs.define
class BlockedKeys:
    """The keys whose rows endpoints leave out, as the ledger had them a moment ago."""

    ledger: Ledger
    tenant: TenantId
    digests: Digests
    _known: dict[str, tuple[float, tuple[KeyFinder, ...]]] = attrs.field(factory=dict)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def among(self, endpoint: str, rows: Sequence[Mapping[str, Json]]) -> frozenset[int]:
        """Return the numbers of the rows with blocked keys.

        Raises:
            LedgerError: The ledger does not answer; the rows must not be stored.
        """
        found: set[int] = set()
        for finder in self._finders(endpoint):
            numbers: dict[bytes, set[int]] = {}
            for number, row in enumerate(rows):
                for key in finder.keys(row):
                    digest = self.digests.of_key(finder.dataset, key)
                    numbers.setdefault(digest, set()).add(number)
            for digest in (
                self.ledger.erasures.blocked(self.tenant, finder.dataset, numbers.keys())
                if numbers
                else ()
            ):
                found |= numbers[digest]
        return frozenset(found)

    def forget(self) -> None:
        """Read the ledger again on the next call."""
        with self._lock:
            self._known = {}

    def is_held(self, endpoint: str, topic: str) -> bool:
        """Whether the topic of an endpoint accepts no records, because they are being copied."""
        return bool(self._finders(endpoint)) and self.ledger.erasures.is_held(topic)

    def _finders(self, endpoint: str) -> tuple[KeyFinder, ...]:
        known = self._known.get(endpoint)
        now = time.monotonic()
        if known is None or now - known[0] > KNOWN_S:
            sources = self.ledger.erasures.blocked_sources(self.tenant, endpoint)
            known = (now, finders_of(sources))
            with self._lock:
                self._known[endpoint] = known
        return known[1]


def finders_of(sources: Sequence[BlockedSource]) -> tuple[KeyFinder, ...]:
    """Prepare the finders of blocked sources."""
    return tuple(KeyFinder.of_form(source.dataset, source.form) for source in sources)


@attrs.frozen(kw_only=True)
class RowFilter:
    """Removes the rows of some keys from the records of an endpoint.

    Attributes:
        blocked: The digests of the keys, by dataset.
    """

    finders: tuple[KeyFinder, ...]
    digests: Digests
    blocked: Mapping[str, frozenset[bytes]]

    def __call__(self, value: bytes | None) -> bytes | None:
        """Return the value of a record without these rows; the same bytes if it has none."""
        if value is None:
            return None
        record = json.loads(value)
        rows = record["rows"]
        kept = [row for row in rows if not self._is_erased(row)]
        return value if len(kept) == len(rows) else json.dumps({"rows": kept}).encode()

    def _is_erased(self, row: Mapping[str, Json]) -> bool:
        return any(
            self.digests.of_key(finder.dataset, key) in self.blocked.get(finder.dataset, ())
            for finder in self.finders
            for key in finder.keys(row)
        )


EMPTY_CALL: Final = b'{"rows": []}'
"""The value of a record without rows, which every reader ignores."""


def _raw_place(source: Source, field: str) -> tuple[str, tuple[str, ...]]:
    """Return the raw column that a field is read from, and the path of a member in it."""
    for name, preproc in source.preproc:
        if name == field and isinstance(preproc, ColumnRef):
            return preproc.column, preproc.path
    return field, ()


def _raw_value(row: Mapping[str, Json], place: tuple[str, tuple[str, ...]]) -> Json:
    column, path = place
    value = row.get(column)
    for member in path:
        value = value.get(member) if isinstance(value, dict) else None
    return value

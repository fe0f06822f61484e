"""The in-memory adapter: a store that injects faults on request."""

import enum
from collections.abc import Sequence

import attrs

from narthex._ir import AssetKind, AssetSpec
from narthex_stores.adapters.directories import checked_name
from narthex_stores.adapters.protocol import Absent, Listed, Match, Mismatch, Probe, Unknown
from narthex_stores.errors import ForeignAssetError, StoreError


class Operation(enum.Enum):
    """The operations of an adapter."""

    PROBE = "probe"
    CREATE = "create"
    DESTROY = "destroy"
    LIST = "list"


class FaultTiming(enum.Enum):
    """Whether a failing call takes effect."""

    BEFORE = "before"
    AFTER = "after"


class Crash(BaseException):
    """A simulated crash of the caller, which no error handler catches."""


@attrs.frozen(kw_only=True)
class Fault:
    """The next call of that operation fails with `error`, without or with its effect."""

    operation: Operation
    error: StoreError | Crash
    when: FaultTiming = FaultTiming.BEFORE


@attrs.frozen(kw_only=True)
class _Thing:
    external_id: str
    asset_id: int
    spec: AssetSpec


class InMemoryAdapter:
    """An adapter for one kind of asset that holds everything in memory."""

    def __init__(self, kind: AssetKind, *, faults: Sequence[Fault] = ()) -> None:
        """Begin empty.

        Args:
            kind: The kind of asset that the adapter handles.
            faults: The faults to inject, each once, in order for each operation.
        """
        self._kind = kind
        self._faults = list(faults)
        self._things: dict[str, _Thing] = {}
        self._made = 0
        self.calls: list[tuple[Operation, str]] = []

    @property
    def kind(self) -> AssetKind:
        """The kind of asset that the adapter handles."""
        return self._kind

    def probe(self, name: str, spec: AssetSpec, *, timeout_s: float) -> Probe:
        """Probe the asset of that name."""
        del timeout_s
        try:
            self._fail(Operation.PROBE, name, FaultTiming.BEFORE)
            self._fail(Operation.PROBE, name, FaultTiming.AFTER)
        except StoreError as error:
            return Unknown(str(error))
        thing = self._things.get(name)
        if thing is None:
            return Absent()
        if thing.spec != spec:
            return Mismatch(f"`{name}` has another spec")
        return Match(thing.external_id)

    def create(self, name: str, spec: AssetSpec, *, asset_id: int, timeout_s: float) -> None:
        """Create the asset, unless the name is taken."""
        del timeout_s
        self._fail(Operation.CREATE, checked_name(name), FaultTiming.BEFORE)
        if name not in self._things:
            self._made += 1
            self._things[name] = _Thing(
                external_id=f"{name}#{self._made}", asset_id=asset_id, spec=spec
            )
        self._fail(Operation.CREATE, name, FaultTiming.AFTER)

    def destroy(self, name: str, *, external_id: str | None, timeout_s: float) -> None:
        """Remove the asset with that id."""
        del timeout_s
        self._fail(Operation.DESTROY, checked_name(name), FaultTiming.BEFORE)
        thing = self._things.get(name)
        if thing is not None:
            if external_id not in {None, thing.external_id}:
                raise ForeignAssetError(f"`{name}` is `{thing.external_id}`, not `{external_id}`")
            del self._things[name]
        self._fail(Operation.DESTROY, name, FaultTiming.AFTER)

    def list(self, prefix: str, *, timeout_s: float) -> tuple[Listed, ...]:
        """List the assets whose names have the prefix."""
        del timeout_s
        self._fail(Operation.LIST, prefix, FaultTiming.BEFORE)
        self._fail(Operation.LIST, prefix, FaultTiming.AFTER)
        return tuple(
            Listed(name=name, external_id=thing.external_id, asset_id=thing.asset_id)
            for name, thing in sorted(self._things.items())
            if name.startswith(prefix)
        )

    def _fail(self, operation: Operation, name: str, when: FaultTiming) -> None:
        if when is FaultTiming.BEFORE:
            self.calls.append((operation, name))
        for fault in self._faults:
            if fault.operation is operation:
                if fault.when is when:
                    self._faults.remove(fault)
                    raise fault.error
                return

"""Columns with roles: the shape of a dataset's rows."""

import enum

import attrs

from narthex._base.records import DESCRIPTION, record
from narthex._ir.alerts import AlertBound
from narthex._ir.types import DataType


@record
class Role(enum.Enum):
    """The role of a field."""

    KEY = "key"
    VALUE = "value"
    TIMESTAMP = "timestamp"


@record
@attrs.frozen(kw_only=True)
class Metadata:
    """Descriptive metadata of an entity; it changes nothing physical.

    Attributes:
        alerts: Bounds on the rows of a dataset, or of the datasets that a featureset looks up.
    """

    owner: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    deprecated: bool = False
    deleted: bool = False
    alerts: tuple[AlertBound, ...] = ()


@record
@attrs.frozen(kw_only=True)
class Field:
    """A named, typed column of a dataset."""

    name: str
    type: DataType
    role: Role = Role.VALUE
    erase_key: bool = False
    metadata: Metadata = attrs.field(default=Metadata(), metadata=DESCRIPTION)


@record
@attrs.frozen
class Column:
    """A named, typed column without a role."""

    name: str
    type: DataType


@record
@attrs.frozen
class Schema:
    """Fields in the author's order; exactly one is the timestamp."""

    fields: tuple[Field, ...]

    @property
    def keys(self) -> tuple[Column, ...]:
        """The key columns, in order."""
        return tuple(Column(f.name, f.type) for f in self.fields if f.role is Role.KEY)

    @property
    def values(self) -> tuple[Column, ...]:
        """The value columns, in order."""
        return tuple(Column(f.name, f.type) for f in self.fields if f.role is Role.VALUE)

    @property
    def timestamp(self) -> str:
        """The name of the event-time field."""
        return next(f.name for f in self.fields if f.role is Role.TIMESTAMP)

    @property
    def columns(self) -> dict[str, DataType]:
        """All names with their types, in order."""
        return {f.name: f.type for f in self.fields}

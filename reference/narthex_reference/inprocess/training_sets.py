"""The training sets of a unit test: kept in memory, with the statistics that a server computes."""

import hashlib
import json
from collections.abc import Mapping, Sequence

import attrs
import pyarrow as pa

from narthex._base import Json, render_instant, to_plain
from narthex._formats import coerce, render_cells
from narthex._formats.arrow import array_of
from narthex._ir import Cell, DataType, Datetime
from narthex._query import ReadPlan
from narthex._training import content_sha256, statistics_of
from narthex.errors import Refused
from narthex_reference.inprocess.branches import CONFLICT, NOT_FOUND


@attrs.frozen(kw_only=True)
class AnsweredSpine:
    """An offline query that was answered for a training set.

    Attributes:
        call: The request: its spine, its features, and the name of the set.
        plan: Its read plan.
        answers: The features, one cell per row.
        request_id: The id of the offline query.
        commit_id: The commit whose features they are.
        now_us: The present, microseconds.
    """

    call: Mapping[str, Json]
    plan: ReadPlan
    answers: Mapping[str, Sequence[Cell]]
    request_id: str
    commit_id: str
    now_us: int


@attrs.frozen(eq=False)
class _TrainingSet:
    """A training set, as a server returns it.

    Attributes:
        content: The hash of the request that made it.
        entry: Its entry in a list.
        details: The rest of its description.
        rows: Its columns.
    """

    content: bytes
    entry: dict[str, Json]
    details: dict[str, Json]
    rows: dict[str, Json]


class InProcessTrainingSets:
    """The training sets of all branches of a client."""

    def __init__(self) -> None:
        """Begin without any."""
        self._sets: dict[tuple[str, str], _TrainingSet] = {}

    def find(self, branch: str, call: Mapping[str, Json]) -> dict[str, Json] | None:
        """Return the set that a request made before; None if there is none of its name.

        Raises:
            Refused: Another request made it.
        """
        name = str(call["name"])
        found = self._sets.get((branch, name))
        if found is None:
            return None
        if found.content != _content(call):
            raise Refused(
                f"training set `{name}` exists with another spine, other features or other "
                "offsets; choose another name, or delete it first",
                status_code=CONFLICT,
            )
        return {"name": name, "status": "stored", "request_id": found.entry["request_id"]}

    def store(self, branch: str, answered: AnsweredSpine) -> dict[str, Json]:
        """Store the answers of a request under its name."""
        call, plan = answered.call, answered.plan
        name, timestamp_column = str(call["name"]), str(call["timestamp_column"])
        types = {**plan.types, timestamp_column: Datetime()}
        spine = call["data"] if isinstance(call["data"], dict) else {}
        rows: dict[str, Json] = {
            column: _typed(values, types[column]) if column in types else values
            for column, values in spine.items()
        }
        rows |= {
            feature: [*render_cells(cells, types[feature])]
            for feature, cells in answered.answers.items()
            if feature not in rows
        }
        unseen = plan.unseen_values()
        entry: dict[str, Json] = {
            "name": name,
            "rows": max((len(cells) for cells in answered.answers.values()), default=0),
            "features": [*answered.answers],
            "commit_id": answered.commit_id,
            "request_id": answered.request_id,
            "data_sha256": hashlib.sha256(json.dumps(rows).encode()).hexdigest(),
            "created_at": render_instant(answered.now_us),
        }
        details: dict[str, Json] = {
            "inputs": [*plan.inputs],
            "timestamp_column": timestamp_column,
            "columns": [*rows],
            "types": {one: to_plain(types[one]) for one in (*plan.inputs, *plan.outputs)},
            "dtypes": call.get("dtypes"),
            "offsets": {},
            "statistics": {
                feature: statistics_of(
                    pa.chunked_array([array_of(cells, types[feature])]),
                    types[feature],
                    unseen.get(feature),
                ).plain()
                for feature, cells in answered.answers.items()
            },
        }
        self._sets[branch, name] = _TrainingSet(_content(call), entry, details, rows)
        return {"name": name, "status": "stored", "request_id": answered.request_id}

    def details(self, branch: str, name: str) -> dict[str, Json]:
        """Return a set without its rows.

        Raises:
            Refused: The branch has none of that name.
        """
        found = self._found(branch, name)
        return found.entry | found.details

    def rows(self, branch: str, name: str) -> dict[str, Json]:
        """Return the columns of a set.

        Raises:
            Refused: The branch has none of that name.
        """
        return self._found(branch, name).rows

    def newest(self, branch: str, *, most: int, before: str | None) -> list[Json]:
        """Return the newest sets of a branch, the newest first; only those before another one.

        Raises:
            Refused: The branch has no set of the name `before`.
        """
        here = [one.entry for (at, _), one in self._sets.items() if at == branch]
        if before is not None:
            here = here[: here.index(self._found(branch, before).entry)]
        return [*here[::-1][:most]]

    def delete(self, branch: str, name: str) -> dict[str, Json]:
        """Delete a set.

        Raises:
            Refused: The branch has none of that name.
        """
        self._found(branch, name)
        del self._sets[branch, name]
        return {"name": name}

    def _found(self, branch: str, name: str) -> _TrainingSet:
        try:
            return self._sets[branch, name]
        except KeyError:
            raise Refused(f"there is no training set `{name}`", status_code=NOT_FOUND) from None


def _content(call: Mapping[str, Json]) -> bytes:
    data, at = call["data"], call.get("at")
    return content_sha256(
        {name: of for name, of in data.items() if isinstance(of, list)}
        if isinstance(data, dict)
        else {},
        inputs=_texts(call["inputs"]),
        features=_texts(call["outputs"]),
        timestamp_column=str(call["timestamp_column"]),
        at=at if isinstance(at, dict) else None,
    )


def _texts(found: Json) -> list[str]:
    return [str(one) for one in found] if isinstance(found, list) else []


def _typed(values: Json, of: DataType) -> Json:
    cells = [coerce(value, of) for value in values] if isinstance(values, list) else []
    return [*render_cells(cells, of)]

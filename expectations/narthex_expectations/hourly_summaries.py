"""One run of `narthex summarize`: count logged answers by the hour in which they were logged.

It reads the log of logged queries from where it ended the last time, and posts summaries together
with the offsets that they are of. So a record is counted once, also if the command dies or runs
twice at the same time. Reads of features do not wait for it: they append to the log as ever.
"""

import datetime as dt
import itertools
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import attrs
import typer

from narthex._base import Json
from narthex._drift import FeatureKind, FeatureSummary, InvalidSummaryError, summary_of
from narthex._query import GarbledAnswerError, LoggedQuery, answers_topic
from narthex.cli.exit_codes import ExitCode
from narthex.cli.output import print_json, tell
from narthex.settings import NotInstalledError, Settings, load_settings
from narthex_expectations.column_summaries import summarize_columns
from narthex_expectations.logged_queries import read_until
from narthex_expectations.server_client import ServerRefusedError, add_summaries, summary_state
from narthex_stores import LogReader, Record, StoreError, platform_broker

MOST_VALUES: Final = 100_000
MOST_SUMMARIES: Final = 10_000
MOST_BYTES: Final = 4_000_000
"""How much is summarized and posted at once: values, summaries, and bytes of logged queries."""

MOST_POSTED: Final = 15_000_000
"""The greatest size of what is posted, in bytes; the server accepts 16 MiB."""


Kinds: TypeAlias = Mapping[str, Mapping[str, FeatureKind]]
"""How features are counted, by branch and full name."""

Key: TypeAlias = tuple[str, str, dt.datetime]
"""A branch, a feature and an hour."""


@attrs.frozen(kw_only=True)
class Summarized:
    """The result of a run.

    Attributes:
        records: How many logged queries were read.
        skipped: How many of them are not logged queries.
        summaries: How many summaries of an hour of a feature were added.
        left_out: How many were too large to be posted, of queries with very many features.
    """

    records: int = 0
    skipped: int = 0
    summaries: int = 0
    left_out: int = 0


@attrs.define
class HourlyValues:
    """The values of logged answers by branch, feature and hour."""

    kinds: Kinds
    skipped: int = 0
    _size: int = 0
    _bytes: int = 0
    _values: dict[Key, list[Json]] = attrs.field(factory=dict)

    @property
    def is_full(self) -> bool:
        """Whether it is time to take the summaries."""
        return (
            self._size >= MOST_VALUES
            or self._bytes >= MOST_BYTES
            or len(self._values) >= MOST_SUMMARIES
        )

    def add(self, record: Record) -> None:
        """Add the answers of a logged query to the hour in which it was logged.

        Features that their branch no longer serves are left out.
        """
        try:
            query = LoggedQuery.decoded(record.value or b"")
        except GarbledAnswerError:
            self.skipped += 1
            return
        at = dt.datetime.fromtimestamp(record.timestamp_ms / 1000, tz=dt.UTC)
        hour = at.replace(minute=0, second=0, microsecond=0)
        known = self.kinds.get(query.branch, {})
        self._bytes += len(record.value or b"")
        for feature, cells in query.outputs.items():
            if feature in known:
                self._values.setdefault((query.branch, feature, hour), []).extend(cells)
                self._size += len(cells)

    def take(self) -> Iterator[tuple[Key, FeatureSummary]]:
        """Yield the summaries of the values, and forget the values.

        Values of an earlier type of their feature are left out.
        """
        values, self._values, self._size, self._bytes = self._values, {}, 0, 0
        for (branch, feature, hour), cells in values.items():
            try:
                yield (branch, feature, hour), summary_of(cells, self.kinds[branch][feature])
            except InvalidSummaryError:
                continue


def summarize(settings: Settings) -> Summarized:
    """Summarize the logged queries since the last run, up to the present end of their log.

    Raises:
        ServerRefusedError: Another run has summarized them meanwhile, or the server does not
            answer.
        StoreError: The cluster does not answer.
    """
    stored, kinds = _state(settings)
    topic = answers_topic(settings.install_id)
    hours, done = HourlyValues(kinds), Summarized()
    with LogReader(platform_broker(settings)) as reader:
        first, ends = reader.first_offsets([topic]), reader.end_offsets([topic])
        reader.assign({place: max(at, stored.get(place[1], 0)) for place, at in first.items()})
        start = {partition: stored.get(partition, 0) for _, partition in ends}
        reached = dict(start)
        for record in read_until(reader, ends):
            hours.add(record)
            reached[record.partition] = record.offset + 1
            done = attrs.evolve(done, records=done.records + 1)
            if hours.is_full:
                done = _post(settings, hours, done, start=start, end=reached)
                start = dict(reached)
        if reached != start:
            done = _post(settings, hours, done, start=start, end=reached)
    return attrs.evolve(done, skipped=hours.skipped)


def _state(settings: Settings) -> tuple[dict[int, int], Kinds]:
    state = summary_state(settings)
    offsets, kinds = state["offsets"], state["kinds"]
    if not isinstance(offsets, dict) or not isinstance(kinds, dict):
        raise ServerRefusedError("the server's answer lacks offsets and kinds of features")
    return {int(p): int(str(at)) for p, at in offsets.items()}, {
        branch: {feature: FeatureKind(kind) for feature, kind in of.items()}
        for branch, of in kinds.items()
        if isinstance(of, dict)
    }


def _post(
    settings: Settings,
    hours: HourlyValues,
    done: Summarized,
    *,
    start: Mapping[int, int],
    end: Mapping[int, int],
) -> Summarized:
    posted, left_out = fitting(_plain(hours.take()), most=MOST_POSTED)
    add_summaries(
        settings,
        {
            "start": {str(partition): at for partition, at in start.items()},
            "end": {str(partition): at for partition, at in end.items()},
            "summaries": posted,
        },
    )
    return attrs.evolve(
        done, summaries=done.summaries + len(posted), left_out=done.left_out + left_out
    )


def fitting(summaries: Iterable[Json], *, most: int) -> tuple[list[Json], int]:
    """Return the smallest summaries that have at most so many bytes as JSON, and how many do not.

    Without the largest ones, the log is never stuck at a query that is too large.
    """
    sized = sorted(((len(json.dumps(one)), n, one) for n, one in enumerate(summaries)))
    until = itertools.accumulate(size for size, _, _ in sized)
    fit = sum(total <= most for total in until)
    return [one for _, _, one in sized[:fit]], len(sized) - fit


def _plain(summaries: Iterable[tuple[Key, FeatureSummary]]) -> Iterator[Json]:
    for (branch, feature, hour), summary in summaries:
        yield {
            "branch": branch,
            "feature": feature,
            "hour": hour.isoformat(),
            "summary": summary.plain(),
        }


def run(*, as_json: bool) -> None:
    """Summarize as `narthex summarize` does, and print the counts; exit with its status."""
    try:
        settings = load_settings()
        found = summarize(settings)
        columns = summarize_columns(settings, now_us=time.time_ns() // 1000)
    except (ServerRefusedError, StoreError) as error:
        tell(f"narthex summarize: {error}")
        raise typer.Exit(ExitCode.OUR_FAULT) from None
    except NotInstalledError as error:
        tell(f"narthex summarize: {error}")
        raise typer.Exit(ExitCode.YOUR_MISTAKE) from None
    if as_json:
        both = attrs.asdict(found) | {"rows": columns.rows, "columns": columns.summaries}
        print_json(both)
    else:
        sys.stdout.write(
            f"{found.records} logged queries, of which {found.skipped} could not be read: "
            f"{found.summaries} summaries, and {found.left_out} that were too large\n"
            f"{columns.rows} rows of datasets: {columns.summaries} summaries\n"
        )

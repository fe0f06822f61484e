"""Validations whose suites, Checkpoints and results the Data Context of an installation has.

A validation of one data frame is a run of the Checkpoint of its suite, which stores the result.
Great Expectations has no validation of several data frames together; the parts of such an audit are
validated one by one, and the sum of their counts is stored as the result of the suite.

Any number of processes may do so at once. Files of the Data Context are replaced as a whole, and
suites and pages change under a lock, which no process holds while it validates.
"""

import datetime as dt
import decimal
import enum
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from narthex._analysis import suite_name
from narthex._base import Backoff, Json, atomic_write, from_micros, make_private, render_instant
from narthex.settings import is_home_of_group
from narthex_expectations.audit_results import EXAMPLES, By, ExpectationResult
from narthex_expectations.data_context.file_lock import locked
from narthex_expectations.suites import numbered
from narthex_stores import TransientError

if TYPE_CHECKING:  # it takes seconds to import, and many audits have no rows
    import great_expectations as gx
    import pandas as pd

RESULTS_KEPT: Final = 50

KEPT_S: Final = 30 * 24 * 3600.0
"""How long a suite is kept after its last result, as those of a branch that was deleted."""

LOCKED_WITHIN_S: Final = 60.0
_RACES: Final = Backoff(first_s=0.02, greatest_s=0.5)
_MOST_RACES: Final = 10

_SITE: Final = "local_site"
_PARAMETER: Final = "$PARAMETER"


class Asset(enum.StrEnum):
    """What a validation is about: the data assets of the Data Context."""

    ROWS = "rows"
    AGGREGATES = "aggregates"
    ANSWERS = "answers"


def interval_name(by: By, *, from_us: int | None, to_us: int | None) -> str:
    """Return the run name of an audit of an interval: by which time, and the interval."""
    kind = by.value.replace("_", " ")
    if from_us is None or to_us is None:
        return f"by {kind}"
    start, end = (render_instant(instant).replace("+00:00", "Z") for instant in (from_us, to_us))
    return f"by {kind} from {start} to {end}"


@attrs.define(kw_only=True)
class DataContext:
    """The Data Context of an installation, as one process uses it; it is made on first use.

    Attributes:
        directory: The project root of the Data Context.
        results_kept: How many results of a suite are kept, the newest.
    """

    directory: Path
    results_kept: int = RESULTS_KEPT
    _opened: "gx.data_context.FileDataContext | None" = attrs.field(default=None, init=False)
    _touched: set[str] = attrs.field(factory=set, init=False)

    def run(self, name: str, *, branch: str, now_us: int) -> "ValidationRun":
        """Return a run, of which results of several suites of a branch can be stored."""
        return ValidationRun(context=self, branch=branch, name=name, at_us=now_us)

    def opened(self) -> "gx.data_context.FileDataContext":
        """Return the Data Context, which is created or brought up to date if it has to be."""
        if self._opened is None:
            import great_expectations as gx  # noqa: PLC0415

            make_private(self.directory, is_of_group=is_home_of_group(os.environ))
            configured = files(__package__).joinpath("great_expectations.yml").read_text()
            path = self._root / "great_expectations.yml"
            with self._locked():
                if not path.is_file() or path.read_text() != configured:
                    atomic_write(path, configured)
            self._opened = gx.get_context(mode="file", context_root_dir=self._root)
        return self._opened

    def publish(self, *, now_us: int) -> None:
        """Remove old results, and bring the Data Docs up to date with those of this process.

        Nothing happens if this process has stored none. What it costs depends on the results that
        are kept, and not on how many there ever were.

        Raises:
            TransientError: Another process held the lock of the Data Context for too long.
        """
        if not self._touched:
            return
        from great_expectations.data_context.types.resource_identifiers import (  # noqa: PLC0415
            ExpectationSuiteIdentifier,
            ValidationResultIdentifier,
        )

        context = self.opened()
        with self._locked():
            self._remove_abandoned(context, now_us)
            shown: list[object] = []
            for name in sorted(self._touched):
                kept = self._remove_old(context, name)
                unshown = [key for key in kept if not self._page_of(key).is_file()]
                shown += [ValidationResultIdentifier.from_tuple(key) for key in unshown]
                shown.append(ExpectationSuiteIdentifier(name=name))
            context.build_data_docs(site_names=[_SITE], resource_identifiers=shown)
        self._touched.clear()

    def put(
        self, suite: "gx.ExpectationSuite", asset: Asset, keys: Sequence[str]
    ) -> "gx.Checkpoint":
        """Store a suite with its validation definition and Checkpoint; return the Checkpoint.

        A suite that is there already stays as it is, with the ids of its expectations.

        Raises:
            TransientError: Another process held the lock of the Data Context for too long.
        """
        import great_expectations as gx  # noqa: PLC0415

        context = self.opened()
        with self._locked():
            self._touched.add(suite.name)
            validation = context.validation_definitions.add_or_update(
                gx.ValidationDefinition(
                    name=suite.name,
                    data=context.data_sources.get("narthex")
                    .get_asset(asset.value)
                    .get_batch_definition("all"),
                    suite=_stored_suite(context, suite),
                )
            )
            return context.checkpoints.add_or_update(
                gx.Checkpoint(
                    name=suite.name,
                    validation_definitions=[validation],
                    result_format={
                        "result_format": "SUMMARY",
                        "partial_unexpected_count": EXAMPLES,
                        **({"unexpected_index_column_names": [*keys]} if keys else {}),
                    },
                )
            )

    @property
    def _root(self) -> Path:
        return self.directory / "gx"

    def _locked(self) -> AbstractContextManager[None]:
        return locked(self.directory / "lock", within_s=LOCKED_WITHIN_S)

    @property
    def _results(self) -> Path:
        return self._root / "uncommitted" / "validations"

    def _page_of(self, key: tuple[str, ...]) -> Path:
        site = self._root / "uncommitted" / "data_docs" / _SITE
        return site.joinpath("validations", *key[:-1], f"{key[-1]}.html")

    def _remove_old(
        self, context: "gx.data_context.FileDataContext", name: str
    ) -> list[tuple[str, ...]]:
        """Remove all but the newest results of a suite; return the keys of those that are kept."""
        backend = context.validation_results_store.store_backend
        keys = sorted(backend.list_keys(prefix=(name,)), key=lambda key: key[-2], reverse=True)
        for key in keys[self.results_kept :]:
            backend.remove_key(key)
        return keys[: self.results_kept]

    def _remove_abandoned(self, context: "gx.data_context.FileDataContext", now_us: int) -> None:
        """Remove suites that have had no result for long; their pages go with the next index."""
        results = context.validation_results_store.store_backend
        definitions = (
            context.checkpoint_store,
            context.validation_definition_store,
            context.expectations_store,
        )
        for suite in (self._root / "expectations").glob("*.json"):
            name = suite.stem
            places = [place for place in (suite, self._results / name) if place.exists()]
            newest = max(place.stat().st_mtime for place in places)
            if name in self._touched or newest > now_us / 1e6 - KEPT_S:
                continue
            for key in results.list_keys(prefix=(name,)):
                results.remove_key(key)
            for store in definitions:
                store.remove_key(store.get_key(name=name))


@attrs.frozen(kw_only=True)
class ValidationRun:
    """A run of validations: an audit of an interval, or the quality gates of a commit.

    Attributes:
        name: The run name of its results.
        at_us: The run time of its results.
    """

    context: DataContext
    branch: str
    name: str
    at_us: int

    def validated(
        self, suite: "gx.ExpectationSuite", rows: "pd.DataFrame", keys: Sequence[str], asset: Asset
    ) -> list[dict[str, Json]]:
        """Run the Checkpoint of a suite on rows, and store its result.

        Args:
            suite: The suite of a dataset or a featureset, under the name of that, whose
                expectations are numbered.
            rows: The rows.
            keys: The columns that name a row for people.
            asset: What the rows are.

        Returns:
            The results of the expectations by their numbers, as Great Expectations writes them;
            unlike the stored ones, with keys of rows that break them.

        Raises:
            TransientError: Other processes store other expectations under the name of the suite.
        """
        from great_expectations.core.run_identifier import RunIdentifier  # noqa: PLC0415
        from great_expectations.exceptions.resource_freshness import (  # noqa: PLC0415
            ResourceFreshnessAggregateError,
        )

        storable, parameters = self._storable(suite)
        for _ in _RACES.attempts(most=_MOST_RACES):
            checkpoint = self.context.put(storable, asset, keys)
            try:
                done = checkpoint.run(
                    batch_parameters={"dataframe": rows},
                    expectation_parameters=parameters,
                    run_id=RunIdentifier(run_name=self.name, run_time=from_micros(self.at_us)),
                )
            except ResourceFreshnessAggregateError:
                continue  # a gate of another commit has put its own expectations there
            (result,) = done.run_results.values()
            return numbered(json.loads(json.dumps(result.to_json_dict()))["results"])
        raise TransientError(f"the suite {storable.name} was changed whenever it was to be run")

    def keep(
        self,
        suite: "gx.ExpectationSuite",
        findings: Sequence[ExpectationResult],
        asset: Asset,
    ) -> None:
        """Store the result of rows that were validated in parts.

        Args:
            suite: The suite, as that of `validated`.
            findings: The sums of the results of its expectations, in their order.
            asset: What the rows are.

        Raises:
            TransientError: Another process held the lock of the Data Context for too long.
        """
        from great_expectations.core.expectation_validation_result import (  # noqa: PLC0415
            ExpectationSuiteValidationResult,
            ExpectationValidationResult,
        )
        from great_expectations.core.run_identifier import RunIdentifier  # noqa: PLC0415
        from great_expectations.data_context.types.resource_identifiers import (  # noqa: PLC0415
            ExpectationSuiteIdentifier,
            ValidationResultIdentifier,
        )

        checkpoint = self.context.put(self._storable(suite)[0], asset, [])
        (validation,) = checkpoint.validation_definitions
        run_id = RunIdentifier(run_name=self.name, run_time=from_micros(self.at_us))
        met = sum(one.success for one in findings)
        result = ExpectationSuiteValidationResult(
            success=met == len(findings),
            results=[
                ExpectationValidationResult(
                    success=found.success,
                    expectation_config=one.configuration,
                    result=dict(found.counts),
                    exception_info={
                        "raised_exception": found.error is not None,
                        "exception_message": found.error,
                        "exception_traceback": None,
                    },
                )
                for one, found in zip(suite.expectations, findings, strict=True)
            ],
            suite_name=checkpoint.name,
            statistics={
                "evaluated_expectations": len(findings),
                "successful_expectations": met,
                "unsuccessful_expectations": len(findings) - met,
                "success_percent": 100.0 * met / len(findings) if findings else None,
            },
            meta={
                "run_id": run_id,
                "validation_time": run_id.run_time,
                "validation_id": validation.id,
                "checkpoint_id": checkpoint.id,
                "active_batch_definition": {
                    "datasource_name": "narthex",
                    "data_connector_name": "fluent",
                    "data_asset_name": asset.value,
                    "batch_identifiers": {},
                },
            },
        )
        identifier = ExpectationSuiteIdentifier(name=checkpoint.name)
        self.context.opened().validation_results_store.store_validation_results(
            suite_validation_result=result,
            suite_validation_result_identifier=ValidationResultIdentifier(
                expectation_suite_identifier=identifier,
                run_id=run_id,
                batch_identifier=f"narthex-{asset.value}",
            ),
            expectation_suite_identifier=identifier,
        )

    def _storable(
        self, suite: "gx.ExpectationSuite"
    ) -> tuple["gx.ExpectationSuite", dict[str, object]]:
        """Return a suite that JSON keeps as it is, and the parameters of its expectations.

        Members of a set that JSON would keep as texts, such as instants, are a suite parameter: the
        suite has their texts for people, and a run of its Checkpoint is given the values.
        """
        import great_expectations as gx  # noqa: PLC0415

        parameters: dict[str, object] = {}
        expectations = []
        for number, one in enumerate(suite.expectations):
            config = one.configuration
            values = config.kwargs.get("value_set")
            if isinstance(values, list) and any(map(_is_no_json, values)):
                parameters[name := f"values_{number}"] = values
                config.kwargs["value_set"] = {_PARAMETER: name}
            expectations.append(config.to_domain_obj())
        texts = {
            name: [str(value) for value in values]
            for name, values in parameters.items()
            if isinstance(values, list)
        }
        named = suite_name(self.branch, suite.name)
        made = gx.ExpectationSuite(name=named, expectations=expectations, suite_parameters=texts)
        return made, parameters


def _is_no_json(value: object) -> bool:
    return isinstance(value, dt.datetime | dt.date | decimal.Decimal)


def _stored_suite(
    context: "gx.data_context.FileDataContext", suite: "gx.ExpectationSuite"
) -> "gx.ExpectationSuite":
    from great_expectations.exceptions import DataContextError  # noqa: PLC0415

    try:
        found = context.suites.get(suite.name)
    except DataContextError:
        return context.suites.add(suite)
    return found if _content(found) == _content(suite) else context.suites.add_or_update(suite)


def _content(suite: "gx.ExpectationSuite") -> dict[str, Json]:
    """Return what a suite says, without ids."""
    plain: Mapping[str, Json] = json.loads(json.dumps(suite.to_json_dict()))
    expectations = plain["expectations"]
    return {
        "suite_parameters": plain.get("suite_parameters"),
        "expectations": [
            {name: value for name, value in one.items() if name != "id"}
            for one in (expectations if isinstance(expectations, list) else [])
            if isinstance(one, dict)
        ],
    }

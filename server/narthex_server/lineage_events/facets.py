"""Facets: the parts of events that describe jobs, runs and datasets."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    InputDatasetFacet,
    JobFacet,
    OutputDatasetFacet,
    RunFacet,
    data_quality_assertions_dataset,
    dataset_version_dataset,
    documentation_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    ownership_dataset,
    schema_dataset,
    symlinks_dataset,
    tags_dataset,
)

from narthex._base import Json
from narthex._ir import COLUMN_ARGUMENTS, Dataset, Schema, unrestricted_name
from narthex_server.lineage_events.dataset_names import DatasetName

PRODUCER: Final = "https://narthex.dev"
"""The program that makes the events."""

INTEGRATION: Final = "NARTHEX"
_REASON: Final = re.compile(r"[a-z][a-z_]{0,40}")


def job_facets(job_type: str, *, is_live: bool) -> dict[str, JobFacet]:
    """Return the facets of a job: whether it ends by itself, and its kind."""
    return {
        "jobType": job_type_job.JobTypeJobFacet(
            processingType="STREAMING" if is_live else "BATCH",
            integration=INTEGRATION,
            jobType=job_type,
            producer=PRODUCER,
        )
    }


def error_facets(message: str) -> dict[str, RunFacet]:
    """Return the facet of a run that failed."""
    facet = error_message_run.ErrorMessageRunFacet(
        message=message, programmingLanguage="PYTHON", producer=PRODUCER
    )
    return {"errorMessage": facet}


def reason_of(error: Json) -> str:
    """Return the platform's own word for an error, such as `stale_base`; empty without one.

    Other texts of errors are not sent: they may have parts of authors' code, and values of rows.
    """
    match error:
        case {"reason": str(reason)} if _REASON.fullmatch(reason):
            return reason
        case _:
            return ""


def dataset_facets(
    schema: Schema | None = None,
    *,
    topic: DatasetName | None = None,
    definition: Dataset | None = None,
) -> dict[str, DatasetFacet]:
    """Return the facets of a dataset.

    Args:
        schema: Its fields, if they are known.
        topic: The topic of its rows, which branches may share.
        definition: Its definition, for its owner, description, tags and version.
    """
    facets: dict[str, DatasetFacet] = {}
    if schema is not None:
        facets["schema"] = _schema_facet(schema)
    if topic is not None:
        facets["symlinks"] = symlinks_dataset.SymlinksDatasetFacet(
            identifiers=[symlinks_dataset.Identifier(topic.namespace, topic.name, "TOPIC")],
            producer=PRODUCER,
        )
    if definition is not None:
        facets |= _declared(definition)
    return facets


def input_dataset(
    name: DatasetName,
    facets: Mapping[str, DatasetFacet] | None = None,
    checks: Mapping[str, InputDatasetFacet] | None = None,
) -> InputDataset:
    """Return a dataset that a run reads."""
    return InputDataset(
        namespace=name.namespace,
        name=name.name,
        facets=dict(facets or {}),
        inputFacets=dict(checks or {}),
    )


def output_dataset(
    name: DatasetName,
    facets: Mapping[str, DatasetFacet] | None = None,
    *,
    rows: int | None = None,
) -> OutputDataset:
    """Return a dataset that a run writes, with the number of rows that it has written."""
    counts: dict[str, OutputDatasetFacet] = {}
    if rows is not None:
        counts["outputStatistics"] = (
            output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                rowCount=rows, producer=PRODUCER
            )
        )
    return OutputDataset(
        namespace=name.namespace, name=name.name, facets=dict(facets or {}), outputFacets=counts
    )


def assertion_facets(result: Json) -> dict[str, InputDatasetFacet]:
    """Return the outcome of an audit: of each expectation its kind, columns and success.

    Values of expectations, examples of rows and texts of errors are not sent.
    """
    expectations = result.get("expectations") if isinstance(result, dict) else None
    assertions = [
        assertion
        for one in (expectations if isinstance(expectations, list) else ())
        for assertion in _assertions(one)
    ]
    if not assertions:
        return {}
    facet = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(
        assertions=assertions, producer=PRODUCER
    )
    return {"dataQualityAssertions": facet}


def _assertions(expectation: Json) -> Sequence[data_quality_assertions_dataset.Assertion]:
    """Return an expectation once for each of its columns, or once without a column."""
    if not isinstance(expectation, dict):
        return ()
    kind, success = expectation.get("kind"), expectation.get("success")
    if not isinstance(kind, str) or not isinstance(success, bool):
        return ()
    severity = "error" if expectation.get("severity") == "critical" else "warn"
    return [
        data_quality_assertions_dataset.Assertion(
            assertion=kind, success=success, column=column, severity=severity
        )
        for column in _columns(expectation.get("arguments")) or (None,)
    ]


def _columns(arguments: Json) -> tuple[str, ...]:
    if not isinstance(arguments, dict):
        return ()
    found: list[str] = []
    for name in COLUMN_ARGUMENTS:
        match arguments.get(name):
            case str(column):
                found.append(column)
            case list(columns):
                found += [column for column in columns if isinstance(column, str)]
            case _:
                pass
    return tuple(found)


def _schema_facet(schema: Schema) -> schema_dataset.SchemaDatasetFacet:
    return schema_dataset.SchemaDatasetFacet(
        fields=[
            schema_dataset.SchemaDatasetFacetFields(
                name=field.name,
                # The values that an author allows may be values of rows.
                type=unrestricted_name(field.type),
                description=field.metadata.description or None,
                ordinal_position=position,
            )
            for position, field in enumerate(schema.fields, start=1)
        ],
        producer=PRODUCER,
    )


def _declared(definition: Dataset) -> dict[str, DatasetFacet]:
    about = definition.metadata
    facets: dict[str, DatasetFacet] = {
        "version": dataset_version_dataset.DatasetVersionDatasetFacet(
            datasetVersion=str(definition.version), producer=PRODUCER
        )
    }
    if about.owner:
        facets["ownership"] = ownership_dataset.OwnershipDatasetFacet(
            owners=[ownership_dataset.Owner(name=about.owner)], producer=PRODUCER
        )
    if about.description:
        facets["documentation"] = documentation_dataset.DocumentationDatasetFacet(
            description=about.description, producer=PRODUCER
        )
    tags = [_tag(tag) for tag in about.tags] + [
        _tag(tag, field.name) for field in definition.schema.fields for tag in field.metadata.tags
    ]
    if tags:
        facets["tags"] = tags_dataset.TagsDatasetFacet(tags=tags, producer=PRODUCER)
    return facets


def _tag(tag: str, field: str | None = None) -> tags_dataset.TagsDatasetFacetFields:
    return tags_dataset.TagsDatasetFacetFields(
        key=tag, value="true", source=INTEGRATION, field=field
    )

"""The routes that write deployed definitions as the Python that declares them."""

from collections.abc import Mapping

import attrs
from fastapi import APIRouter
from typing_extensions import TypedDict

from narthex._analysis import pipeline_reads
from narthex._analysis.checks import extractor_inputs, extractor_outputs
from narthex._definition_code import dataset_code, featureset_code
from narthex._ir import CodeExtractor, Dataset, Definitions, Extractor, Featureset, LookupExtractor
from narthex_server.catalog.named_entities import dataset_named, featureset_named
from narthex_server.security.dataset_access import Access
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.security.visibility import Visibility
from narthex_server.services.container import SnapshotsDep
from narthex_server.web.plain_routes import PlainRoute

router = APIRouter(route_class=PlainRoute, dependencies=[requires(Right.READ_DEFINITIONS)])


class DefinitionCode(TypedDict):
    """A definition as Python.

    Attributes:
        code: A class, with the functions and structs that it needs above it. A dataset's sources
            and sinks are not in it.
        is_complete: False if pipelines or extractors were left out because they name datasets or
            features that the principal does not see.
    """

    code: str
    is_complete: bool


@router.get("/datasets/{name}/code")
def dataset_code_of(name: str, snapshots: SnapshotsDep, access: AccessDep) -> DefinitionCode:
    """Write the class that declares a deployed dataset."""
    deployed = snapshots.serving(access.branch).definitions
    visibility = access.visibility(deployed)
    dataset = dataset_named(visibility.shown(deployed), name)
    seen = tuple(
        one
        for one in dataset.pipelines
        if all(visibility.of_dataset(read) for read in pipeline_reads(one))
    )
    shown = attrs.evolve(dataset, pipelines=seen)
    return {
        "code": dataset_code(shown, deployed.datasets),
        "is_complete": len(seen) == len(dataset.pipelines),
    }


@router.get("/featuresets/{name}/code")
def featureset_code_of(name: str, snapshots: SnapshotsDep, access: AccessDep) -> DefinitionCode:
    """Write the class that declares a deployed featureset."""
    shown, hidden = visible_featureset(snapshots.serving(access.branch).definitions, access, name)
    return {"code": featureset_code(shown), "is_complete": not hidden}


def visible_featureset(deployed: Definitions, access: Access, name: str) -> tuple[Featureset, int]:
    """Return a featureset without what a principal does not see, and how much was left out.

    Raises:
        Missing: The principal sees none of this name.
    """
    visibility = access.visibility(deployed)
    featureset = featureset_named(visibility.shown(deployed), name)
    known = {one.name: one for one in deployed.datasets}
    whole = featureset_named(deployed, name)
    seen = tuple(one for one in featureset.extractors if _is_visible(one, whole, known, visibility))
    hidden = len(whole.features) - len(featureset.features)
    hidden += len(featureset.extractors) - len(seen)
    return attrs.evolve(featureset, extractors=seen), hidden


def _is_visible(
    extractor: Extractor, of: Featureset, known: Mapping[str, Dataset], visibility: Visibility
) -> bool:
    """Return whether a principal sees all that an extractor names."""
    features = (*extractor_inputs(of, extractor, known), *extractor_outputs(of, extractor))
    match extractor:
        case LookupExtractor(dataset=dataset):
            datasets: tuple[str, ...] = (dataset,)
        case CodeExtractor(datasets=datasets):
            pass
        case _:
            datasets = ()
    return all(map(visibility.of_feature, features)) and all(map(visibility.of_dataset, datasets))

"""All entities of one commit, from the objects that an author's file holds."""

from collections.abc import Iterable, Sequence

from narthex._ir.entities import Definitions
from narthex._sdk.datasets.datasets import Dataset, dataset_entity, is_deleted
from narthex._sdk.declare.env import check_commit_env
from narthex._sdk.declare.metadata import metadata_of
from narthex._sdk.features.featuresets import Featureset, featureset_entity
from narthex.errors import ArgumentInvalid


def definitions(
    datasets: Sequence[Dataset | type],
    featuresets: Sequence[Featureset | type],
    *,
    env: str | None = None,
    with_deleted: bool = False,
) -> Definitions:
    """Return the values of a commit for one env; what is marked deleted is left out.

    Args:
        datasets: The datasets; to a type checker, a class below `@dataset` stays a class.
        featuresets: The featuresets, likewise.
        env: Take what is declared for it, and for none.
        with_deleted: Give what is marked deleted too: an incremental commit removes it.

    Raises:
        ArgumentInvalid: A list has something else in it.
        EnvInvalid: `env` is not one name.
    """
    selected = check_commit_env(env)
    for found in datasets:
        if not isinstance(found, Dataset):
            raise ArgumentInvalid(f"`datasets` has `{found!r}`, which is not a dataset")
    for given in featuresets:
        if not isinstance(given, Featureset):
            raise ArgumentInvalid(f"`featuresets` has `{given!r}`, which is not a featureset")
    known = [one for one in datasets if isinstance(one, Dataset)]
    named = [one for one in featuresets if isinstance(one, Featureset)]
    return Definitions(
        datasets=tuple(
            dataset_entity(d, selected) for d in known if with_deleted or not is_deleted(d)
        ),
        featuresets=tuple(
            featureset_entity(f, selected, with_deleted=with_deleted)
            for f in named
            if with_deleted or not metadata_of(f).deleted
        ),
    )


def definitions_in(objects: Iterable[object], *, env: str | None = None) -> Definitions:
    """Return the values of all datasets and featuresets among some objects, each once."""
    unique = list({id(one): one for one in objects}.values())
    return definitions(
        [one for one in unique if isinstance(one, Dataset)],
        [one for one in unique if isinstance(one, Featureset)],
        env=env,
    )

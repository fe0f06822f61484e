"""Collect the entities of one commit from the objects in an author's file."""

from collections.abc import Iterable, Sequence

from narthex._analysis.graph import check
from narthex._formats.wire import CommitPayload, encode_commit
from narthex._ir.entities import Definitions
from narthex._sdk.datasets.datasets import Dataset, dataset_entity, is_deleted
from narthex._sdk.declare.env import check_commit_env
from narthex._sdk.declare.metadata import metadata_of
from narthex._sdk.features.featuresets import Featureset, featureset_entity
from narthex.errors import ArgumentInvalid, raise_all


def definitions(
    datasets: Sequence[Dataset | type],
    featuresets: Sequence[Featureset | type],
    *,
    env: str | None = None,
    with_deleted: bool = False,
) -> Definitions:
    """Return the definitions of a commit for one env, without the entities marked as deleted.

    Args:
        datasets: The datasets; to a type checker, a class with `@dataset` remains a class.
        featuresets: The featuresets, likewise.
        env: Select the declarations for it and those without an env.
        with_deleted: Include the entities marked as deleted, which an incremental commit removes.

    Raises:
        ArgumentInvalid: A list contains another object.
        EnvInvalid: `env` is not one name.
    """
    selected = check_commit_env(env)
    for found in datasets:
        if not isinstance(found, Dataset):
            raise ArgumentInvalid(f"`datasets` has `{found!r}`, which is not a dataset")
    for given in featuresets:
        if not isinstance(given, Featureset):
            raise ArgumentInvalid(f"`featuresets` has `{given!r}`, which is not a featureset")
    known = [dataset for dataset in datasets if isinstance(dataset, Dataset)]
    named = [featureset for featureset in featuresets if isinstance(featureset, Featureset)]
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
    """Return the definitions of all datasets and featuresets among some objects, each once."""
    unique = list({id(one): one for one in objects}.values())
    return definitions(
        [one for one in unique if isinstance(one, Dataset)],
        [one for one in unique if isinstance(one, Featureset)],
        env=env,
    )


def encoded_commit(  # noqa: PLR0913 (those of `Client.commit`)
    message: str,
    datasets: Sequence[Dataset | type],
    featuresets: Sequence[Featureset | type],
    *,
    env: str | None = None,
    preview: bool = False,
    incremental: bool = False,
    backfill: bool = True,
) -> bytes:
    """Return the payload of a commit, as the server reads it.

    An incremental commit may name definitions that only the branch has, so the server checks them.

    Raises:
        DefinitionErrors: All errors of definitions that are the whole branch.
        ArgumentInvalid: A list contains another object.
        EnvInvalid: `env` is not one name.
    """
    chosen = definitions(datasets, featuresets, env=env, with_deleted=incremental)
    if not incremental:
        raise_all(check(chosen))
    return encode_commit(
        CommitPayload(
            message=message,
            definitions=chosen,
            env=env or "",
            preview=preview,
            incremental=incremental,
            backfill=backfill,
        )
    )

"""Tags: an entity inherits the tags of its inputs, down to the features; `~tag` cancels one.

A token for some tags only sees entities without any other tag, and changes nothing else.
"""

from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from types import MappingProxyType

import attrs

from narthex._base import NotCanonicalError, encode
from narthex._ir import Dataset, Definitions, Featureset
from narthex_server.definitions.data_flow import EntityNode, flow

CANCEL = "~"
"""The prefix of a tag that a dataset or a feature does not inherit."""

_NOTHING = Definitions(datasets=(), featuresets=())
_UNTAGGED: Mapping[EntityNode, frozenset[str]] = MappingProxyType({})


@attrs.frozen(kw_only=True)
class Tags:
    """The tags of all entities of a branch.

    Attributes:
        reach: The tags of a node and of all its inputs, before it cancels any.
        have: The tags that a node has.
        cancels: Each tag that a node does not inherit.
    """

    reach: dict[EntityNode, frozenset[str]]
    have: dict[EntityNode, frozenset[str]]
    cancels: frozenset[tuple[EntityNode, str]]


def tags_of(
    definitions: Definitions | None, sources: Mapping[EntityNode, frozenset[str]] = _UNTAGGED
) -> Tags:
    """Return the tags of all nodes: declared ones, and those inherited, also from sources."""
    known = _NOTHING if definitions is None else definitions
    declared = {**dict(_declared_tags(known)), **sources}
    order: TopologicalSorter[EntityNode] = TopologicalSorter(dict.fromkeys(declared, ()))
    feeders: dict[EntityNode, set[EntityNode]] = {}
    for start, end in flow(known):
        order.add(end, start)
        feeders.setdefault(end, set()).add(start)
    cancels = frozenset(
        (node, tag.removeprefix(CANCEL))
        for node, own in declared.items()
        for tag in own
        if tag.startswith(CANCEL)
    )
    reach: dict[EntityNode, frozenset[str]] = {}
    have: dict[EntityNode, frozenset[str]] = {}
    for node in order.static_order():
        own = declared.get(node, frozenset())
        taken = frozenset[str]().union(*(have[one] for one in feeders.get(node, ())))
        reach[node] = taken | {tag for tag in own if not tag.startswith(CANCEL)}
        have[node] = frozenset(tag for tag in reach[node] if (node, tag) not in cancels)
    return Tags(reach=reach, have=have, cancels=cancels)


def own_tags(dataset: Dataset) -> frozenset[str]:
    """Return the declared tags of a dataset and its fields, without those that it cancels."""
    declared = frozenset[str]().union(*(tags for _, tags in _declared_tags_of(dataset)))
    return frozenset(tag for tag in declared if not tag.startswith(CANCEL))


def changed_entities(before: Definitions | None, after: Definitions) -> frozenset[EntityNode]:
    """Return the datasets and features that a commit adds, changes (tags count) or removes."""
    old, new = (dict(_parts(_NOTHING if one is None else one)) for one in (before, after))
    return frozenset(
        node
        for title in old.keys() | new.keys()
        if _content(old.get(title)) != _content(new.get(title))
        for part in (old.get(title), new.get(title))
        if part is not None
        for node, _ in _declared_tags_of(part)
    )


def _parts(definitions: Definitions) -> Iterator[tuple[EntityNode, Dataset | Featureset]]:
    for dataset in definitions.datasets:
        yield ("dataset", dataset.name), dataset
    for featureset in definitions.featuresets:
        yield ("featureset", featureset.name), featureset


def _content(part: Dataset | Featureset | None) -> object:
    """Return the content of a part: everything except its place in the file."""
    if part is None:
        return None
    try:
        return encode(part), dict(_declared_tags_of(part))
    except NotCanonicalError:
        return part


def _declared_tags(definitions: Definitions) -> Iterator[tuple[EntityNode, frozenset[str]]]:
    for _, part in _parts(definitions):
        yield from _declared_tags_of(part)


def _declared_tags_of(part: Dataset | Featureset) -> Iterator[tuple[EntityNode, frozenset[str]]]:
    """Yield the tags declared at a dataset and its fields, or at each feature and its set."""
    match part:
        case Dataset(name=name, schema=schema):
            tags = [part.metadata.tags, *(field.metadata.tags for field in schema.fields)]
            yield ("dataset", name), frozenset[str]().union(*tags)
        case Featureset(name=name, features=features):
            for feature in features:
                declared = frozenset(part.metadata.tags) | frozenset(feature.metadata.tags)
                yield ("feature", f"{name}.{feature.name}"), declared

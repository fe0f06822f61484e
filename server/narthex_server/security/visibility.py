"""The visibility of a branch for tokens with some tags only: the rest appears not to exist."""

import attrs

from narthex._analysis import columns_of
from narthex._ir import Definitions, Featureset
from narthex_server.definitions.data_flow import EntityNode


@attrs.frozen(kw_only=True)
class Visibility:
    """The hidden part of a branch: datasets, features, and sources that feed hidden ones only."""

    hidden: frozenset[EntityNode]

    def of_dataset(self, name: str) -> bool:
        """Return whether a dataset is visible."""
        return ("dataset", name) not in self.hidden

    def of_feature(self, name: str) -> bool:
        """Return whether a feature is visible, by its qualified name."""
        return ("feature", name) not in self.hidden

    def of_output(self, name: str) -> bool:
        """Return whether a query's output, a feature or featureset, is visible completely."""
        return not any(
            kind == "feature" and (hidden == name or hidden.startswith(f"{name}."))
            for kind, hidden in self.hidden
        )

    def shown(self, definitions: Definitions) -> Definitions:
        """Return the visible definitions.

        Featuresets are reduced to their visible features, and to the expectations about these.
        """
        cut = (self._cut(one) if self.hidden else one for one in definitions.featuresets)
        return Definitions(
            datasets=tuple(one for one in definitions.datasets if self.of_dataset(one.name)),
            featuresets=tuple(one for one in cut if one.features or not self.hidden),
        )

    def _cut(self, featureset: Featureset) -> Featureset:
        of = featureset.name
        shown = tuple(f for f in featureset.features if self.of_feature(f"{of}.{f.name}"))
        names = {feature.name for feature in shown}
        return attrs.evolve(
            featureset,
            features=shown,
            expectations=tuple(
                one for one in featureset.expectations if names.issuperset(columns_of(one))
            ),
        )

    def of_path(self, path: str) -> bool:
        """Return whether the asset at a logical path is visible."""
        match path.split("/"):
            case ["dataset", name, *_]:
                return self.of_dataset(name)
            case ["webhook", webhook, endpoint, *_]:
                return ("source", f"webhook:{webhook}/{endpoint}") not in self.hidden
            case _:
                return not self.hidden


ALL = Visibility(hidden=frozenset())

"""The checks and comparisons of definitions before assets exist.

- `graph` checks definitions as a whole; `checks` and `schemas` contain the rules by kind.
- `fingerprints` hashes the meaning of an asset.
- `feature_graph` has what a featureset is computed from.
- `suite_names` names the suites of expectations.
- `changes`, `causes` and `value_diff` compare a commit with what is deployed.

Start with `graph`.
"""

from narthex._analysis.causes import ChangeCause, change_causes
from narthex._analysis.changes import Changes, changes_by_entity, compare, logical
from narthex._analysis.checks.histories import longest_reach
from narthex._analysis.feature_graph import (
    FeatureGraph,
    datasets_of,
    feature_graph,
    is_same_graph,
    is_same_lookup,
)
from narthex._analysis.fingerprints import source_id
from narthex._analysis.graph import (
    TypedDataset,
    check,
    disorders,
    pipeline_reads,
    reads,
    typed_datasets,
)
from narthex._analysis.row_expectations import columns_of
from narthex._analysis.suite_names import suite_name

__all__ = [
    "ChangeCause",
    "FeatureGraph",
    "Changes",
    "TypedDataset",
    "change_causes",
    "changes_by_entity",
    "check",
    "columns_of",
    "compare",
    "disorders",
    "datasets_of",
    "feature_graph",
    "is_same_graph",
    "is_same_lookup",
    "logical",
    "longest_reach",
    "pipeline_reads",
    "reads",
    "source_id",
    "suite_name",
    "typed_datasets",
]

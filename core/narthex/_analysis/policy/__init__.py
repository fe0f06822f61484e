"""The operator's policies, and the checks of definitions against them."""

from narthex._analysis.policy.commit_checks import (
    Place,
    Use,
    place_of,
    policy_errors,
    tags_of_place,
    uses,
)
from narthex._analysis.policy.egress_checks import (
    connector_errors,
    egress_errors,
    egress_rules,
    missing_rules,
    outlets,
    require_grant,
)
from narthex._analysis.policy.platform_places import own_places
from narthex._analysis.policy.policy import Policy, granted, load_policy

__all__ = [
    "Place",
    "Policy",
    "Use",
    "connector_errors",
    "egress_errors",
    "egress_rules",
    "granted",
    "load_policy",
    "missing_rules",
    "outlets",
    "own_places",
    "place_of",
    "policy_errors",
    "require_grant",
    "tags_of_place",
    "uses",
]

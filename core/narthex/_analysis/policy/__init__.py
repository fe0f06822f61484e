"""The operator's policies, and the checks of definitions against them."""

from narthex._analysis.policy.commit_checks import (
    Place,
    Use,
    place_of,
    policy_errors,
    tags_of_place,
    uses,
)
from narthex._analysis.policy.egress import (
    AddressInvalidError,
    Destination,
    EgressRules,
    HttpAddress,
    parse_host,
    parse_path,
    resolve,
)
from narthex._analysis.policy.egress_checks import (
    egress_errors,
    egress_rules,
    missing_rules,
    require_grant,
)
from narthex._analysis.policy.outlets import (
    GOOGLE,
    driver_options,
    kafka_targets,
    mongo_address,
    object_store,
    registry_address,
    sink_address,
    snowflake_target,
    sql_target,
)
from narthex._analysis.policy.platform_places import own_places
from narthex._analysis.policy.policy import Policy, granted, load_policy

__all__ = [
    "GOOGLE",
    "AddressInvalidError",
    "EgressRules",
    "HttpAddress",
    "Place",
    "Policy",
    "Destination",
    "Use",
    "driver_options",
    "egress_errors",
    "egress_rules",
    "granted",
    "kafka_targets",
    "load_policy",
    "missing_rules",
    "mongo_address",
    "object_store",
    "own_places",
    "parse_host",
    "parse_path",
    "place_of",
    "policy_errors",
    "registry_address",
    "require_grant",
    "resolve",
    "sink_address",
    "snowflake_target",
    "sql_target",
    "tags_of_place",
    "uses",
]

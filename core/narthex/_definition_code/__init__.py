"""Definitions as Python: classes that declare a dataset or a featureset as it is deployed.

They are made from the definition, not from the author's file, which the platform does not have:
comments and names of variables are lost. Sources and sinks are not in them.
"""

from narthex._definition_code.connectors import (
    connector_properties,
    sink_options,
    source_options,
)
from narthex._definition_code.datasets import dataset_code
from narthex._definition_code.featuresets import feature_code, featureset_code

__all__ = [
    "connector_properties",
    "dataset_code",
    "feature_code",
    "featureset_code",
    "sink_options",
    "source_options",
]

"""The checks of definitions: a module for each kind of definition."""

from narthex._analysis.checks.features import extractor_inputs, extractor_outputs
from narthex._analysis.checks.places import place_errors

__all__ = [
    "extractor_inputs",
    "extractor_outputs",
    "place_errors",
]

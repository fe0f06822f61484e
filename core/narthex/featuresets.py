"""Featuresets: named groups of read-time values."""

from narthex.declare.extractors import extractor
from narthex.declare.features import Feature, feature
from narthex.declare.featuresets import Featureset, featureset

__all__ = ["Feature", "Featureset", "extractor", "feature", "featureset"]

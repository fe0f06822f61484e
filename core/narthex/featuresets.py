"""Featuresets: named groups of read-time values."""

from narthex._sdk.features.extractors import extractor
from narthex._sdk.features.features import Feature, feature
from narthex._sdk.features.featuresets import Featureset, featureset

__all__ = ["Feature", "Featureset", "extractor", "feature", "featureset"]

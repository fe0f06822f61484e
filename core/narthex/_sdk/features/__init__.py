"""Featuresets, features and extractors as authors declare them."""

from narthex._sdk.features.featuresets import Featureset

__all__ = [
    "Featureset",
]

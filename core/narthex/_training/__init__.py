"""Training sets: what makes two requests for one the same, and the statistics of its features."""

from narthex._training.content import SET_NAME, content_sha256
from narthex._training.statistics import FeatureStatistics, statistics_of

__all__ = ["SET_NAME", "FeatureStatistics", "content_sha256", "statistics_of"]

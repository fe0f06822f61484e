"""Expressions as Spark columns: one rendering of `narthex.expr.functions`."""

from narthex_spark_apps.rendering.calls import NotRenderedError
from narthex_spark_apps.rendering.walk import Scope, render

__all__ = ["NotRenderedError", "Scope", "render"]

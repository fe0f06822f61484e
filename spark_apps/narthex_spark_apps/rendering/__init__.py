"""Expressions as Spark columns: one rendering of `narthex.expr.functions`."""

from narthex_spark_apps.rendering.calls import NotRenderedError, convert, kept
from narthex_spark_apps.rendering.walk import Scope, literal, render

__all__ = ["NotRenderedError", "Scope", "convert", "kept", "literal", "render"]

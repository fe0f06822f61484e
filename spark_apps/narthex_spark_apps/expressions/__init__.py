"""Expressions as Spark columns. `walk` renders a tree; the other modules render functions."""

from narthex_spark_apps.expressions.calls import NotRenderedError, convert, kept
from narthex_spark_apps.expressions.walk import Scope, literal, render

__all__ = ["NotRenderedError", "Scope", "convert", "kept", "literal", "render"]

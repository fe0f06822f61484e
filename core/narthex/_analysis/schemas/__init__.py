"""The output schema of each step of a pipeline, and the errors of the step.

Start with `pipelines`, which calls the others step by step.
"""

from narthex._analysis.schemas.groups import is_live
from narthex._analysis.schemas.pipelines import all_steps, is_terminal, output_schema

__all__ = [
    "all_steps",
    "is_live",
    "is_terminal",
    "output_schema",
]

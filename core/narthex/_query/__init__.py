"""Queries: `read_plan` plans one, `lookup_batch` groups its lookups, `execution` runs it.

`explanations` has the origins of an answer. `logged_queries` is the record of a query and its
answer that a platform stores, `spine_checks` the check of the rows of an offline query.
"""

from narthex._query.execution import execute, rows_finder, whole_columns, whole_rows
from narthex._query.explanations import Explanations
from narthex._query.logged_queries import (
    Columns,
    GarbledAnswerError,
    LoggedQuery,
    answers_topic,
)
from narthex._query.lookup_batch import FoundRow, Lookup
from narthex._query.read_plan import CodeStep, LookupStep, ReadPlan, plan
from narthex._query.spine_checks import report_of, spine_problems

__all__ = [
    "CodeStep",
    "Columns",
    "Explanations",
    "FoundRow",
    "GarbledAnswerError",
    "LoggedQuery",
    "Lookup",
    "LookupStep",
    "ReadPlan",
    "answers_topic",
    "execute",
    "plan",
    "report_of",
    "rows_finder",
    "spine_problems",
    "whole_columns",
    "whole_rows",
]

"""Messages about changed rows of a joined dataset."""

import json

from narthex._ir import Column, Int, List, Str
from narthex_spark_apps.pipelines.join_stage import parse_span


def test_lists_in_the_key_of_a_changed_row_are_read_as_the_cells_that_they_were() -> None:
    keys = (
        Column("a", List(Int())),
        Column("b", Str()),
        Column("c", List(List(Int()))),
    )
    message = {"cells": [[0, 1], "a", [[2]]], "from": 0, "to": None, "offsets": {}}

    assert parse_span(json.dumps(message).encode(), keys).cells == ((0, 1), "a", ((2,),))

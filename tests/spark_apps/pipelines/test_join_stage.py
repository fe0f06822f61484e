"""Messages about changed rows of a joined dataset."""

import json

from narthex_spark_apps.pipelines.join_stage import parse_span


def test_lists_in_the_key_of_a_changed_row_are_read_as_the_cells_that_they_were() -> None:
    message = {"cells": [[0, 1], "a", [[2]]], "from": 0, "to": None, "offsets": {}}

    assert parse_span(json.dumps(message).encode()).cells == ((0, 1), "a", ((2,),))

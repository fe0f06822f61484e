"""Positions survive as texts, and united ones are behind the rows of each."""

import base64
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex._formats import (
    NotPositionsError,
    parse_positions,
    render_positions,
    united_positions,
)

POSITIONS = st.dictionaries(
    st.text("abc_0", min_size=1),
    st.dictionaries(st.integers(0, 63), st.integers(0, 2**62), max_size=4),
    max_size=3,
)


@given(POSITIONS)
def test_positions_survive_as_a_text_for_headers_and_addresses(
    positions: dict[str, dict[int, int]],
) -> None:
    text = render_positions(positions)

    assert re.fullmatch(r"[\w.-]+", text, re.ASCII)
    assert parse_positions(text) == positions


@given(st.lists(POSITIONS, min_size=1, max_size=4))
def test_united_positions_are_the_greatest(several: list[dict[str, dict[int, int]]]) -> None:
    united = parse_positions(united_positions(map(render_positions, several)))

    for topic in {topic for one in several for topic in one}:
        partitions = {p for one in several for p in one.get(topic, {})}
        assert united[topic] == {
            p: max(one[topic][p] for one in several if p in one.get(topic, {})) for p in partitions
        }


def test_an_older_position_does_not_replace_a_later_one() -> None:
    texts = [render_positions({"t": {0: at}}) for at in (3, 7, 5)]

    assert parse_positions(united_positions(texts)) == {"t": {0: 7}}


@given(st.text() | st.binary().map(lambda raw: "1." + raw.hex()))
def test_another_text_is_refused(text: str) -> None:
    try:
        parse_positions(text)
    except NotPositionsError:
        return
    assert text == render_positions(parse_positions(text))


@pytest.mark.parametrize("text", ["1." + "A" * 9000, "1.WyI" + "W" * 6000])
def test_a_long_text_is_refused(text: str) -> None:
    with pytest.raises(NotPositionsError):
        parse_positions(text)


@pytest.mark.parametrize(
    "plain",
    [
        '{"a": {"%s": 1}}' % ("9" * 5000),
        '{"a": {"0": %s}}' % ("9" * 5000),
        '{"a": {"0": true}}',
        '{"a": {"-1": 1}}',
        '{"a": {"0": null}}',
        '{"a": 1}',
        "[" * 3000,
    ],
    ids=["partition", "offset", "boolean", "negative", "null", "number", "nested"],
)
def test_other_json_is_refused(plain: str) -> None:
    with pytest.raises(NotPositionsError):
        parse_positions("1." + base64.urlsafe_b64encode(plain.encode()).decode().rstrip("="))

"""Regular expressions of authors cost time in proportion to the text, and mean one thing."""

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex._analysis.graph import check
from narthex._base.patterns import matches
from narthex._formats.coercion import coerce
from narthex._ir.literals import is_literal_of
from narthex._ir.schema import Schema
from narthex._ir.types import Optional, Regex, Str
from narthex._sdk.annotations import parse_annotation, regex
from narthex.errors import RestrictionInvalid
from tests.server.shop import shop_definitions

BOMBS = (r"(a+)+$", r"(a|a)*b", r"(a|aa)+$", r"([a-z]+)*\d", r"(.*a){12}")
PATTERNS = (
    r"\w+@\w+",
    r"\d{2,4}",
    r"a$",
    r"^a|b$",
    r"[^x]*",
    r".",
    r"(?i)straße",
    r"\s",
    r"\p{L}+",
)
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["a\n", "b", "ab", "xa", "٣٤", "é", "STRASSE", "straße", "\u00a0", "1234", ""]),
)


@pytest.mark.parametrize("pattern", BOMBS)
def test_a_pattern_that_backtracks_elsewhere_is_matched_in_linear_time(pattern: str) -> None:
    # An engine that backtracks needs more steps than there are atoms.
    assert not is_literal_of("a" * 200_000 + "!", Regex(pattern))


@given(pattern=st.sampled_from(PATTERNS), text=TEXTS)
def test_rows_literals_and_columns_match_patterns_alike(pattern: str, text: str) -> None:
    array = pa.array([text])
    by_column = pc.match_substring_regex(array, f"^(?:{pattern})$").to_pylist() == [True]

    assert is_literal_of(text, Regex(pattern)) == matches(pattern, text) == by_column
    if by_column:
        assert coerce(text, Regex(pattern)) == text
    else:
        with pytest.raises(ValueError, match="the column is"):
            coerce(text, Regex(pattern))


@pytest.mark.parametrize("pattern", [r"(?=a)b", r"(a)\1", "(", "a{9999}", "((a{99}){99}){99}"])
def test_a_pattern_that_the_engine_does_not_take_is_refused_where_it_is_written(
    pattern: str,
) -> None:
    with pytest.raises(RestrictionInvalid, match="RE2 syntax"):
        parse_annotation(regex(pattern))


def test_a_pattern_in_a_payload_that_the_sdk_did_not_make_is_refused() -> None:
    shop = shop_definitions()
    users = next(one for one in shop.datasets if one.name == "Users")
    fields = tuple(
        attrs.evolve(field, type=Optional(Regex(r"(a)\1"))) if field.type == Str() else field
        for field in users.schema.fields
    )
    forged = attrs.evolve(
        shop,
        datasets=tuple(
            attrs.evolve(one, schema=Schema(fields)) if one is users else one
            for one in shop.datasets
        ),
    )

    found = [error for error in check(forged) if isinstance(error, RestrictionInvalid)]

    assert [error.origin for error in found] == [users.origin]
    assert "`Users`" in found[0].message


def test_half_of_a_surrogate_pair_matches_nothing() -> None:
    assert not matches(".*", "\ud800")

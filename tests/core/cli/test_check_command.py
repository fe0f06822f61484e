"""`narthex check`: mistakes that are not in a definition itself."""

from pathlib import Path

import pytest

from narthex import cli
from narthex._formats.wire import CommitPayload, decode_commit, encode_commit
from narthex.cli.projects.author_files import load_whole

DATASET = """
from datetime import datetime
from narthex.connectors import Webhook, source
from narthex.datasets import dataset

@source(Webhook(name="w").endpoint("e"), {arguments})
@dataset
class Orders:
    order: str
    at: datetime
"""


def checked(
    path: Path, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[object, str]:
    path.write_text(text)
    monkeypatch.setattr("sys.argv", ["narthex", "check", str(path)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    return left.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (
            'cdc="append"',
            "`source` needs `disorder`",
            "pass `disorder`: the greatest expected delay of a row; it never changes a result",
        ),
        ("", "`source` needs `disorder`, `cdc`", "pass `disorder`: the greatest"),
        (
            'disoder="1h", cdc="append"',
            "`source` has no argument `disoder`",
            "did you mean `disorder`?",
        ),
        ('disorder="1h", cdc="append", x=1', "`source` has no argument `x`", "its arguments are"),
    ],
)
def test_arguments_that_do_not_fit_are_named_with_the_line_and_the_meaning(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: str,
    message: str,
    hint: str,
) -> None:
    text = DATASET.format(arguments=arguments)

    code, told = checked(tmp_path / "orders.py", text, monkeypatch, capsys)

    assert code == 1
    assert f"[NX954] {message}\n" in told
    assert "orders.py:6" in told
    assert f"hint: {hint}" in told


def test_a_call_of_the_authors_own_function_is_reported_as_python_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "def source(disorder):\n    pass\n\nsource()\n"

    code, told = checked(tmp_path / "own.py", text, monkeypatch, capsys)

    assert code == 1
    assert "TypeError: source() missing 1 required positional argument: 'disorder'" in told
    assert "own.py:4" in told


def test_a_file_that_declares_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = DATASET.format(arguments='disorder="1h", cdc="append"')
    (tmp_path / "orders_of_shop.py").write_text(text)

    code, told = checked(tmp_path / "whole.py", "import orders_of_shop\n", monkeypatch, capsys)

    assert code == 1
    assert "declares and imports no dataset and no featureset" in told
    assert "from project.orders import Order" in told


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ('.groupby("k").aggregate(n=Count(window="1h"))', 'write `Continuous("1h")`'),
        ('.groupby("k", window="1h").aggregate(n=Count())', 'write `Tumbling("1h")`'),
        ('.dedup(by="k", window="1h")', 'write `Tumbling("1h")`'),
    ],
)
def test_a_duration_in_place_of_a_window_is_answered_with_the_window(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    call: str,
    hint: str,
) -> None:
    text = f"""
from datetime import datetime
from narthex.connectors import Webhook, source
from narthex.datasets import Count, Dataset, dataset, field, pipeline
from narthex.lib import inputs

@source(Webhook(name="w").endpoint("e"), disorder="1h", cdc="append")
@dataset
class Orders:
    k: str
    at: datetime

@dataset
class Counted:
    k: str = field(key=True)
    n: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def count(cls, orders: Dataset) -> Dataset:
        return orders{call}
"""

    code, told = checked(tmp_path / "counted.py", text, monkeypatch, capsys)

    assert code == 1
    assert f"hint: {hint}" in told


def test_a_mistake_outside_of_a_definition_has_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "columns.py").write_text('from narthex.expr import col\n\nPRICE = col("")\n')
    text = "import columns\n"

    code, told = checked(tmp_path / "orders.py", text, monkeypatch, capsys)

    assert code == 1
    assert "[NX402] `col` got ''" in told
    assert "columns.py:3" in told


CHAIN = """
from datetime import datetime
from narthex.connectors import Webhook, source
from narthex.datasets import dataset, field, pipeline
from narthex.expr import col
from narthex.lib import inputs

__owner__ = "orders@shop.dev"

@source(Webhook(name="w").endpoint("e"), disorder="1h", cdc="append")
@dataset
class Orders:
    price: float
    at: datetime = field(timestamp=True)

total = col("price")
for _ in range({operators}):
    total = total + 1.0

@dataset
class Prices:
    price: float
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders)
    def dearer(cls, orders):
        return orders.assign(price=total.astype(float))
"""


@pytest.mark.parametrize("operators", [99, 100, 400, 5_000])
def test_an_expression_with_too_many_operators_is_refused_where_it_is_made(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    operators: int,
) -> None:
    text = CHAIN.format(operators=operators)

    code, told = checked(tmp_path / "orders.py", text, monkeypatch, capsys)

    if operators == 99:
        assert code in {0, None}
        definitions = load_whole(tmp_path / "orders.py").definitions()
        sent = encode_commit(CommitPayload(message="", definitions=definitions))
        assert decode_commit(sent).definitions == definitions
    else:
        assert code == 1
        assert "[NX402] an expression has about a hundred operators" in told
        assert "orders.py:18" in told
        assert "a mistake of its own" not in told

"""The alerts file: its defaults, and all of its mistakes at once, without its values."""

import datetime as dt
import re
from pathlib import Path

import pytest

from narthex_server.alerts.configuration import RULES, AlertsFileInvalid, load_alerts_file
from tests.server.alerts.alert_values import alert

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "alerts.md"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "alerts.toml"
    path.write_text(text)
    return path


def mistakes(tmp_path: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(AlertsFileInvalid) as raised:
        load_alerts_file(written(tmp_path, text))
    return raised.value.mistakes


def test_a_missing_file_has_no_receivers(tmp_path: Path) -> None:
    found = load_alerts_file(tmp_path / "alerts.toml")

    assert found.receivers == []
    assert found.repeat_every == dt.timedelta(hours=4)
    assert found.rules.failed_commit.severity == "critical"


def test_all_mistakes_are_reported_with_their_places(tmp_path: Path) -> None:
    found = mistakes(
        tmp_path,
        """
        colour = "red"

        [[receivers]]
        name = "chat"
        kind = "slack"

        [[receivers]]
        name = "mail"
        kind = "email"
        host = "smtp.example.com"
        sender = "nobody"
        to = []

        [rules.lag]
        max_age = "ten"
        """,
    )

    assert len(found) == 5
    assert "`receivers[1]`: give either `url`, or `url_secret`" in found[0]
    assert found[1].startswith("`receivers[2].sender`: ")
    assert found[2].startswith("`receivers[2].to`: ")
    assert found[3].startswith("`rules.lag.max_age`: ")
    assert found[4].startswith("`colour`: ")


@pytest.mark.parametrize(
    ("lines", "mistake"),
    [
        ('url = "https://hooks.slack.com/services/T0/B0/hunter2"', "the address is a secret"),
        ('url = "https://ann:hunter2@example.com"', "`url` has credentials"),
        ('url = "ftp://example.com/hunter2"', "is not an address"),
        ('url = "https://example.com"\nurl_secret = "a"', "give either"),
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_shown(
    tmp_path: Path, lines: str, mistake: str
) -> None:
    (found,) = mistakes(tmp_path, f'[[receivers]]\nname = "a"\nkind = "slack"\n{lines}\n')

    assert mistake in found
    assert "hunter2" not in found


def test_a_password_does_not_travel_in_clear(tmp_path: Path) -> None:
    (found,) = mistakes(
        tmp_path,
        """
        [[receivers]]
        name = "mail"
        kind = "email"
        host = "smtp.example.com"
        security = "none"
        user = "ann"
        password_secret = "smtp"
        sender = "a@example.com"
        to = ["b@example.com"]
        """,
    )

    assert "would travel in clear" in found


def test_two_receivers_have_two_names(tmp_path: Path) -> None:
    one = '[[receivers]]\nname = "a"\nkind = "webhook"\nurl = "http://127.0.0.1"\n'

    assert mistakes(tmp_path, one + one) == ("two receivers are named `a`",)


def test_a_receiver_gets_its_rules_branches_and_severities(tmp_path: Path) -> None:
    (receiver,) = load_alerts_file(
        written(
            tmp_path,
            """
            [[receivers]]
            name = "a"
            kind = "webhook"
            url = "http://127.0.0.1"
            severity = "warning"
            rules = ["fresh*"]
            branches = ["main", "release/*"]
            """,
        )
    ).receivers

    assert receiver.gets(alert())
    assert receiver.gets(alert(severity="critical", branch="release/7"))
    assert not receiver.gets(alert(severity="info"))
    assert not receiver.gets(alert(rule="lag"))
    assert not receiver.gets(alert(branch="dev"))


def test_text_that_is_not_toml_is_a_mistake(tmp_path: Path) -> None:
    (found,) = mistakes(tmp_path, "[[receivers]")

    assert found.startswith("this is not TOML")


def test_the_file_of_the_guide_is_valid(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```toml\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)

    found = load_alerts_file(written(tmp_path, text))

    assert [receiver.name for receiver in found.receivers] == ["on-call", "team"]
    assert found.rules.lag.severity == "critical"


def test_the_guide_lists_each_rule() -> None:
    listed = re.findall(r"^\| `(\w+)` \| ", GUIDE.read_text().split("## Bounds")[0], re.MULTILINE)

    assert sorted(listed) == sorted(RULES)

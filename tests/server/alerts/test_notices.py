"""Grouping, repetition, silences: what a receiver gets, and what it does not get."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import attrs

from narthex_ledger import AlertView, NoticeView, SilenceView
from narthex_server.alerts.configuration import AlertsFile
from narthex_server.alerts.notices import Timing, next_changes, next_notice
from tests.server.alerts.alert_values import HOUR, MINUTE, NOON, alert, ids, silence, state

TIMING = Timing(group_wait=dt.timedelta(0), group_interval=5 * MINUTE, repeat_every=4 * HOUR)
NOTHING = NoticeView(receiver="chat", rule="freshness", branch="main", announced={})


def step(
    notice: NoticeView,
    alerts: Sequence[AlertView],
    *,
    at: dt.datetime = NOON,
    silences: Sequence[SilenceView] = (),
    timing: Timing = TIMING,
) -> NoticeView | None:
    return next_notice(notice, alerts, silences=silences, now=at, timing=timing, ids=ids())


def announced(*alerts: AlertView, at: dt.datetime = NOON) -> NoticeView:
    """Return the notice after a receiver got a message about these alerts."""
    found = step(NOTHING, alerts, at=at)
    assert found is not None
    return delivered(found)


def delivered(notice: NoticeView) -> NoticeView:
    return attrs.evolve(notice, message=None, message_id=None, next_attempt_at=None)


def subjects(notice: NoticeView | None, part: str) -> list[str]:
    assert notice is not None
    message: Any = notice.message
    return [one["subject"] for one in message[part]]


def test_a_hundred_broken_datasets_are_one_message() -> None:
    alerts = [alert(f"D{number:02}") for number in range(100)]
    file = AlertsFile.model_validate(
        {
            "group_wait": "1s",
            "receivers": [{"name": "chat", "kind": "webhook", "url": "http://127.0.0.1"}],
        }
    )

    found = next_changes(state(now=NOON + MINUTE), alerts, file, ids())

    (change,) = found
    assert change.before is None
    assert len(subjects(change.after, "firing")) == 100


def test_each_rule_and_branch_is_a_message_of_its_own() -> None:
    alerts = [alert(), alert(rule="lag"), alert(branch="dev")]
    receivers = [
        {"name": "all", "kind": "webhook", "url": "http://127.0.0.1"},
        {"name": "main", "kind": "webhook", "url": "http://127.0.0.1", "branches": ["main"]},
    ]
    file = AlertsFile.model_validate({"receivers": receivers})

    found = next_changes(state(now=NOON + MINUTE), alerts, file, ids())

    groups = [(one.after.receiver, one.after.rule, one.after.branch) for one in found]
    assert groups == [
        ("all", "freshness", "dev"),
        ("all", "freshness", "main"),
        ("all", "lag", "main"),
        ("main", "freshness", "main"),
        ("main", "lag", "main"),
    ]
    assert len({one.after.message_id for one in found}) == 5


def test_the_first_message_waits_for_more_alerts_of_its_group() -> None:
    timing = attrs.evolve(TIMING, group_wait=MINUTE)
    late = alert("Late", started_at=NOON + MINUTE / 2)

    assert step(NOTHING, [alert()], at=NOON, timing=timing) is None
    found = step(NOTHING, [alert(), late], at=NOON + MINUTE, timing=timing)

    assert subjects(found, "firing") == ["Late", "Orders"]


def test_an_alert_that_ends_within_the_wait_is_never_sent() -> None:
    timing = attrs.evolve(TIMING, group_wait=MINUTE)

    assert step(NOTHING, [alert()], timing=timing) is None
    assert step(NOTHING, [], at=NOON + HOUR, timing=timing) is None


def test_an_alert_is_sent_once_and_again_after_the_interval() -> None:
    notice = announced(alert())

    assert step(notice, [alert()], at=NOON + 3 * HOUR) is None
    again = step(notice, [alert()], at=NOON + 4 * HOUR)

    assert subjects(again, "firing") == ["Orders"]
    assert again is not None
    assert again.message["new"] == []  # type: ignore[index, call-overload]


def test_a_change_of_a_group_waits_for_its_interval() -> None:
    notice = announced(alert())
    more = [alert(), alert("Users", started_at=NOON + MINUTE)]

    assert step(notice, more, at=NOON + MINUTE) is None
    found = step(notice, more, at=NOON + 5 * MINUTE)

    assert subjects(found, "firing") == ["Orders", "Users"]
    assert found is not None
    assert found.message["new"] == ["Users"]  # type: ignore[index, call-overload]


def test_the_end_of_an_alert_is_sent_once() -> None:
    notice = announced(alert(), alert("Users"))

    half = step(notice, [alert("Users")], at=NOON + HOUR)
    assert (subjects(half, "firing"), subjects(half, "resolved")) == (["Users"], ["Orders"])
    assert half is not None
    whole = step(delivered(half), [], at=NOON + 2 * HOUR)
    assert (subjects(whole, "firing"), subjects(whole, "resolved")) == ([], ["Users"])
    assert whole is not None
    assert whole.message["status"] == "resolved"  # type: ignore[index, call-overload]
    assert step(delivered(whole), [], at=NOON + 9 * HOUR) is None


def test_another_severity_is_a_change() -> None:
    notice = announced(alert())
    worse = alert(severity="critical")

    found = step(notice, [worse], at=NOON + HOUR)

    assert subjects(found, "firing") == ["Orders"]
    assert found is not None
    assert found.message["new"] == ["Orders"]  # type: ignore[index, call-overload]


def test_a_message_that_was_not_delivered_is_part_of_the_next_one() -> None:
    first = step(NOTHING, [alert(), alert("Users")])
    assert first is not None
    waiting = attrs.evolve(first, attempts=3, next_attempt_at=NOON + 2 * HOUR)

    second = step(waiting, [alert("Users")], at=NOON + HOUR)

    assert second is not None
    assert (subjects(second, "firing"), subjects(second, "resolved")) == (["Users"], ["Orders"])
    assert second.message_id == first.message_id  # both are the first of their ids
    assert (second.attempts, second.next_attempt_at) == (3, NOON + 2 * HOUR)
    third = step(second, [], at=NOON + 2 * HOUR)
    assert subjects(third, "resolved") == ["Orders", "Users"]


def test_an_alert_that_came_back_is_not_resolved_too() -> None:
    first = step(NOTHING, [alert()])
    assert first is not None
    ended = step(first, [], at=NOON + HOUR)
    assert ended is not None

    back = step(ended, [alert(started_at=NOON + 2 * HOUR)], at=NOON + 2 * HOUR)

    assert (subjects(back, "firing"), subjects(back, "resolved")) == (["Orders"], [])


def test_a_silenced_alert_is_not_sent_until_the_silence_ends() -> None:
    silences = [silence(rule="fresh*", subject="Ord*")]

    assert step(NOTHING, [alert()], silences=silences) is None
    found = step(NOTHING, [alert(), alert("Users")], silences=silences)
    assert subjects(found, "firing") == ["Users"]
    assert subjects(step(NOTHING, [alert()], at=NOON + HOUR), "firing") == ["Orders"]


def test_an_announced_alert_that_is_silenced_is_not_repeated_but_its_end_is_sent() -> None:
    notice = announced(alert())
    silences = [silence(branch="main")]

    assert step(notice, [alert()], at=NOON + 5 * HOUR, silences=silences) is None
    found = step(notice, [], at=NOON + 6 * HOUR, silences=silences)

    assert subjects(found, "resolved") == ["Orders"]


def test_a_silence_of_one_branch_leaves_the_others() -> None:
    other = attrs.evolve(NOTHING, branch="dev")

    found = step(other, [alert(branch="dev")], silences=[silence(branch="main")])

    assert subjects(found, "firing") == ["Orders"]


def test_a_receiver_that_no_longer_gets_a_rule_hears_that_it_is_resolved() -> None:
    file = AlertsFile.model_validate(
        {
            "receivers": [
                {"name": "chat", "kind": "webhook", "url": "http://127.0.0.1", "rules": ["lag"]}
            ]
        }
    )

    (change,) = next_changes(
        state(now=NOON + HOUR, notices=(announced(alert()),)), [alert()], file, ids()
    )

    assert subjects(change.after, "resolved") == ["Orders"]

"""Commands for alerts: `narthex alerts list|silence|unsilence|test`."""

from typing import Annotated, Final

import typer

from narthex._base.records import Json
from narthex._base.times import MINUTE_US, DurationError, parse_duration
from narthex.cli.exit_codes import ExitCode
from narthex.cli.options import Token, Url, connect
from narthex.cli.output import (
    AsJson,
    list_of,
    objects_of,
    print_done,
    print_json,
    print_line,
    print_table,
    tell,
)
from narthex.errors import ArgumentsUnfit

alerts_app: Final = typer.Typer(
    name="alerts", help="List and silence alerts, and test their receivers.", no_args_is_help=True
)

_ALERT: Final = ("severity", "rule", "branch", "subject", "summary")
_SILENCE: Final = ("silence_id", "rule", "branch", "subject", "until", "created_by", "reason")

Pattern = Annotated[str, typer.Option(help="A shell pattern [all].")]


@alerts_app.command("list")
def listed(*, url: Url = "", token: Token = "", as_json: AsJson = False) -> None:
    """List the alerts that fire, the silences, and the deliveries that fail."""
    found = connect(url, token).alerts()
    if as_json:
        print_json(found)
        return
    alerts, silences = objects_of(found.get("alerts")), objects_of(found.get("silences"))
    print_table(_ALERT, [*map(_alert, alerts)], empty="no alert fires")
    if silences:
        print_line("")
        print_table(_SILENCE, [[one.get(name) for name in _SILENCE] for one in silences], empty="")
    for delivery in objects_of(found.get("deliveries")):
        if delivery.get("error"):
            tell(
                f"receiver `{delivery.get('receiver')}` did not take {delivery.get('rule')} after "
                f"{delivery.get('attempts')} attempts: {delivery.get('error')}"
            )
    for mistake in list_of(found.get("mistakes")):
        tell(f"the alerts file has a mistake: {mistake}")


@alerts_app.command("silence")
def silence(  # noqa: PLR0913 (one parameter an option)
    *,
    lasts: Annotated[str, typer.Option("--for", help="For how long, such as `2h`.")],
    reason: Annotated[str, typer.Option(help="A text for other people.")],
    rule: Pattern = "*",
    branch: Pattern = "*",
    subject: Pattern = "*",
    url: Url = "",
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Keep alerts that match all patterns from being sent for a while; print the silence's id."""
    made = connect(url, token).silence_alerts(
        reason, minutes=_minutes(lasts), rule=rule, branch=branch, subject=subject
    )
    if as_json:
        print_json(made.body)
    else:
        print_line(str(made.body.get("silence_id")))


@alerts_app.command("unsilence")
def unsilence(
    silence_id: Annotated[str, typer.Argument(help="The id of the silence, from `alerts list`.")],
    *,
    url: Url = "",
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """End a silence; alerts that still fire are sent."""
    ended = connect(url, token).end_silence(silence_id)
    print_done(ended.body, f"silence {silence_id} has ended", as_json=as_json)


@alerts_app.command("test")
def send_test(
    receiver: Annotated[
        str | None, typer.Argument(help="The name of a receiver in the alerts file [all].")
    ] = None,
    *,
    url: Url = "",
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Send a test message to the receivers; exit with 1 if one did not take it."""
    answer = connect(url, token).send_test_alert(receiver)
    outcomes = objects_of(answer.body.get("deliveries"))
    if as_json:
        print_json(answer.body)
    else:
        print_table(
            ("receiver", "outcome"),
            [
                [one.get("receiver"), "delivered" if one.get("delivered") else one.get("error")]
                for one in outcomes
            ],
            empty="there is no receiver",
        )
    if not all(one.get("delivered") for one in outcomes):
        raise typer.Exit(ExitCode.FOUND)


def _alert(alert: dict[str, Json]) -> list[Json]:
    silenced = "silenced: " if alert.get("silenced") else ""
    return [
        alert.get("severity"),
        alert.get("rule"),
        alert.get("branch") or "installation",
        alert.get("subject"),
        f"{silenced}{alert.get('summary')}; {alert.get('remedy')}",
    ]


def _minutes(duration: str) -> int:
    """Return a duration in whole minutes, at least one.

    Raises:
        ArgumentsUnfit: It is not a duration.
    """
    try:
        found = parse_duration(duration)
    except DurationError as error:
        raise ArgumentsUnfit(f"`--for {duration}`: {error}", hint="write it as `2h`") from None
    return max(1, -(-found // MINUTE_US))

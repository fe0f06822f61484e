"""Commands for alerts: `narthex alerts list|silence|unsilence|test`."""

from typing import Annotated, Final

import typer

from narthex._base.records import Json
from narthex._base.times import MINUTE_US, DurationError, parse_duration
from narthex.cli.options import AsJson, Token, Url, connect, print_json, print_line, tell
from narthex.errors import ArgumentsUnfit

alerts_app: Final = typer.Typer(
    name="alerts", help="List and silence alerts, and test their receivers.", no_args_is_help=True
)

Pattern = Annotated[str, typer.Option(help="A shell pattern [all].")]


@alerts_app.command("list")
def listed(*, url: Url = "", token: Token = "", as_json: AsJson = False) -> None:
    """List the alerts that fire, the silences, and the deliveries that fail."""
    found = connect(url, token).alerts()
    if as_json:
        print_json(found)
        return
    for alert in _dicts(found.get("alerts")):
        silenced = " (silenced)" if alert.get("silenced") else ""
        where = alert.get("branch") or "installation"
        print_line(
            f"{alert.get('severity')}  {alert.get('rule')}  {where}  {alert.get('subject')}"
            f"{silenced}\n  {alert.get('summary')}\n  {alert.get('remedy')}"
        )
    for silence in _dicts(found.get("silences")):
        patterns = " ".join(f"{name}={silence.get(name)}" for name in ("rule", "branch", "subject"))
        print_line(
            f"silence {silence.get('silence_id')}: {patterns} until {silence.get('until')}, by "
            f"{silence.get('created_by')}: {silence.get('reason')}"
        )
    for delivery in _dicts(found.get("deliveries")):
        if delivery.get("error"):
            tell(
                f"receiver `{delivery.get('receiver')}` did not take {delivery.get('rule')} after "
                f"{delivery.get('attempts')} attempts: {delivery.get('error')}"
            )
    mistakes = found.get("mistakes")
    for mistake in mistakes if isinstance(mistakes, list) else ():
        tell(f"the alerts file has a mistake: {mistake}")
    if not found.get("alerts"):
        tell("no alert fires")


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
    if as_json:
        print_json(ended.body)
    else:
        tell(f"silence {silence_id} has ended")


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
    outcomes = _dicts(answer.body.get("deliveries"))
    if as_json:
        print_json(answer.body)
    else:
        for one in outcomes:
            is_done = one.get("delivered")
            print_line(f"{one.get('receiver')}: {'delivered' if is_done else one.get('error')}")
    if not all(one.get("delivered") for one in outcomes):
        raise typer.Exit(1)


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


def _dicts(plain: Json) -> list[dict[str, Json]]:
    return [one for one in plain if isinstance(one, dict)] if isinstance(plain, list) else []

"""Waits without a worker: the triggerer polls the platform until a commit has caught up."""

import asyncio
from collections.abc import AsyncIterator

import httpx
from airflow.triggers.base import BaseTrigger, TaskSuccessEvent, TriggerEvent
from typing_extensions import override

from narthex._base import Backoff
from narthex_plugins.platform_client import platform


class CaughtUpTrigger(BaseTrigger):
    """Ends the task when every job of a commit has caught up.

    It fires if the commit has ended otherwise: the task then fails with that message.
    """

    def __init__(self, commit_id: str, poll_s: float = 0.5) -> None:
        """Wait for one commit, polling every `poll_s` seconds."""
        super().__init__()
        self.commit_id = commit_id
        self.poll_s = poll_s

    @override
    def serialize(self) -> tuple[str, dict[str, str | float]]:
        return (
            "narthex_plugins.triggers.CaughtUpTrigger",
            {"commit_id": self.commit_id, "poll_s": self.poll_s},
        )

    @override
    async def run(self) -> AsyncIterator[TriggerEvent]:
        found = platform()
        url = found.url(f"commits/{self.commit_id}/readiness")
        async with httpx.AsyncClient(
            headers=found.headers, timeout=10.0, verify=found.certificates
        ) as client:
            for delay_s in Backoff(first_s=self.poll_s, greatest_s=self.poll_s).delays():
                await asyncio.sleep(delay_s)
                try:
                    answer = await client.get(url)
                    body = answer.json() if answer.is_success else {}
                except (httpx.TransportError, ValueError):
                    body = {}
                if body.get("ready"):
                    yield TaskSuccessEvent()
                    return
                if body.get("ended"):
                    yield TriggerEvent({"state": body["ended"]})
                    return

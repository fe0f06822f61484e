"""Waits without a worker: the triggerer polls the platform until something about a commit is so."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from urllib.parse import quote

import attrs
import httpx
from airflow.triggers.base import BaseTrigger, TaskSuccessEvent, TriggerEvent
from typing_extensions import override

from narthex._base import Backoff
from narthex_plugins.platform_client import Json, platform_of_loop


async def _answers(path: str, *, poll_s: float) -> AsyncIterator[dict[str, Json]]:
    """Read a path of the API again and again; yield {} for a failure."""
    found = await platform_of_loop()
    async with httpx.AsyncClient(
        headers=found.headers, timeout=10.0, verify=found.certificates
    ) as client:
        for delay_s in Backoff(first_s=poll_s, greatest_s=poll_s).delays():
            await asyncio.sleep(delay_s)
            try:
                answer = await client.get(found.url(path))
                body = answer.json() if answer.is_success else {}
            except (httpx.TransportError, ValueError):
                body = {}
            yield body if isinstance(body, dict) else {}


class CaughtUpTrigger(BaseTrigger):
    """Ends the task when every job of a commit has caught up.

    It fires if the commit has ended otherwise: the task then fails with that message. Without the
    id of a commit, it is the one that the run has made.
    """

    def __init__(self, commit_id: str, run_id: str = "", poll_s: float = 0.5) -> None:
        """Wait for one commit, polling every `poll_s` seconds."""
        super().__init__()
        self.commit_id = commit_id
        self.run_id = run_id
        self.poll_s = poll_s

    @override
    def serialize(self) -> tuple[str, dict[str, str | float]]:
        return (
            "narthex_plugins.triggers.CaughtUpTrigger",
            {"commit_id": self.commit_id, "run_id": self.run_id, "poll_s": self.poll_s},
        )

    @override
    async def run(self) -> AsyncIterator[TriggerEvent]:
        commit_id = self.commit_id or await self._commit_of_run()
        async for body in _answers(f"commits/{commit_id}/readiness", poll_s=self.poll_s):
            if body.get("ready"):
                yield TaskSuccessEvent()
                return
            if body.get("ended"):
                yield TriggerEvent({"state": body["ended"], "commit_id": commit_id})
                return

    async def _commit_of_run(self) -> str:
        path = f"runs/{quote(self.run_id, safe='')}/commit"
        async for body in _answers(path, poll_s=self.poll_s):
            if commit_id := body.get("commit_id"):
                return str(commit_id)
        raise AssertionError  # the answers do not end


@attrs.frozen(kw_only=True)
class DatasetProgress:
    """How far the backfill of one dataset is.

    Attributes:
        rows: The rows that were read.
        line: The same, and what it waits for, for a log.
    """

    rows: int
    line: str
    is_done: bool


def progress_of(answer: Mapping[str, Json], dataset: str) -> DatasetProgress:
    """Read the progress of one dataset from the platform's answer about a backfill.

    A dataset that is missing has nothing left to do: its commit has ended, or was superseded.
    """
    listed = answer.get("datasets")
    for one in listed if isinstance(listed, list) else ():
        match one:
            case {
                "dataset": str(name),
                "rows": int(rows),
                "of": of,
                "done": bool(done),
                "error": error,
            } if name == dataset:
                amount = f"{rows:,} of {of:,} rows" if isinstance(of, int) else f"{rows:,} rows"
                failed = f"; it failed and is retried: {error}" if error else ""
                line = f"{dataset}: {amount}{', done' if done else ''}{failed}"
                return DatasetProgress(rows=rows, line=line, is_done=done)
    return DatasetProgress(rows=0, line=f"{dataset}: nothing is left to read", is_done=True)


class BackfillTrigger(BaseTrigger):
    """Fires when the backfill of one dataset of a commit has ended; logs how far it is."""

    def __init__(self, commit_id: str, dataset: str, poll_s: float = 2.0) -> None:
        """Wait for one dataset, polling every `poll_s` seconds."""
        super().__init__()
        self.commit_id = commit_id
        self.dataset = dataset
        self.poll_s = poll_s

    @override
    def serialize(self) -> tuple[str, dict[str, str | float]]:
        return (
            "narthex_plugins.triggers.BackfillTrigger",
            {"commit_id": self.commit_id, "dataset": self.dataset, "poll_s": self.poll_s},
        )

    @override
    async def run(self) -> AsyncIterator[TriggerEvent]:
        before = ""
        async for body in _answers(f"commits/{self.commit_id}/backfill", poll_s=self.poll_s):
            if "datasets" not in body:
                continue
            filled = progress_of(body, self.dataset)
            if filled.is_done:
                yield TriggerEvent(body)
                return
            if filled.line != before:
                self.log.info("%s", filled.line)
            before = filled.line

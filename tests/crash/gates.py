"""Quality gates in the world of crash tests: the check of a history is a point."""

import json
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from narthex._ir import Severity
from narthex_ledger import Ledger
from narthex_server.deploy.quality_gates import Gate, QualityGates
from narthex_stores import TransientError
from tests.crash.points import FaultHook


class CheckedAtOnce(QualityGates):
    """Gates whose process has printed its outcomes when it is started.

    A history breaks its critical expectations, and fulfils all others.
    """

    def __init__(self, *, ledger: Ledger, history_dir: str, fault_hook: FaultHook) -> None:
        """Prepare; every check is a point of the hook."""
        super().__init__(
            ledger=ledger,
            history_dir=history_dir,
            expectations_dir=Path(history_dir) / "expectations",
        )
        self._fault_hook = fault_hook

    def _begin(self, commit_id: UUID, gates: Sequence[Gate], checks: object) -> None:
        self._check(commit_id, gates, checks)  # type: ignore[arg-type]
        # The next look retries, without the pause of a real clock.
        self._checks.pop(commit_id, None)

    def _output_of(self, commit_id: UUID, branch: str, gates: Sequence[Gate]) -> tuple[str, str]:
        del commit_id, branch
        try:
            printed = self._fault_hook.call(
                "call gate check", lambda: "\n".join(map(_outcome, gates)), lambda: None
            )
        except TransientError as error:
            return "", str(error)
        return printed, "ended"


def _outcome(gate: Gate) -> str:
    is_broken = any(one.severity is Severity.CRITICAL for one in gate.plan.expectations)
    return json.dumps(
        {
            "dataset": gate.plan.name,
            "success": not is_broken,
            "is_critical": is_broken,
            "result": {"rows": 3},
            "examples": [["ann"]] if is_broken else [],
        }
    )

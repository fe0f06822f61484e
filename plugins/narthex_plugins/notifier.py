"""A notifier for the DAGs of users: it raises an alert of the platform, and ends it again.

The server sends the alert to the receivers of the installation, grouped, and silences apply.
"""

from collections.abc import Mapping
from typing import Final

from airflow.sdk.bases.notifier import BaseNotifier
from typing_extensions import override

from narthex_plugins.platform_client import platform

RULE: Final = "dag_failed"
LASTS_S: Final = 26 * 3600
"""For how long an alert lasts if no later run of the DAG ends it: longer than a day."""


class NarthexNotifier(BaseNotifier):
    """Raises the alert that a DAG failed, as `on_failure_callback` of the DAG.

    As `on_success_callback`, with `fires=False`, it ends the alert.

    Args:
        branch: The branch of the platform that the DAG is about.
        severity: `critical`, `warning` or `info`.
        fires: Whether the alert begins or ends.
        lasts_s: After how many seconds it ends by itself.
    """

    template_fields = ("branch",)

    @override
    def __init__(
        self,
        *,
        branch: str = "main",
        severity: str = "warning",
        fires: bool = True,
        lasts_s: int = LASTS_S,
    ) -> None:
        super().__init__()
        self.branch = branch
        self.severity = severity
        self.fires = fires
        self.lasts_s = lasts_s

    @override
    def notify(self, context: Mapping[str, object]) -> None:
        """Report the run to the server.

        Raises:
            StepDeferredError: The server does not answer.
            StepRefused: The server refuses.
        """
        dag_id = str(getattr(context.get("dag"), "dag_id", "unknown"))
        run_id = str(context.get("run_id") or getattr(context.get("dag_run"), "run_id", "unknown"))
        platform().send(
            "alerts/findings",
            {
                "rule": RULE,
                "subject": dag_id,
                "fires": self.fires,
                "severity": self.severity,
                "summary": f"Run `{run_id}` of the DAG `{dag_id}` failed in Airflow.",
                "remedy": "Open the run in Airflow and read the log of its failed task.",
                "lasts_s": self.lasts_s,
            },
            headers={"X-Narthex-Branch": self.branch},
        )

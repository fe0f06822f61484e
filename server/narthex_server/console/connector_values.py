"""The values of the pages of sources and sinks."""

from narthex_ledger import MetricSpan
from narthex_server.catalog import connector_metrics, connectors
from narthex_server.console.list_parts import PartNumber, part_of
from narthex_server.console.page_routes import Location
from narthex_server.console.plots import plots
from narthex_server.operations.job_status import job_rows
from narthex_server.operations.metric_series import Span
from narthex_server.security.request_access import AccessDep


def connector_values(
    location: Location,
    access: AccessDep,
    of: str | None = None,
    part: PartNumber = 1,
    span: Span = MetricSpan.DAY,
) -> dict[str, object]:
    """Return the values of the list of sources or sinks, or of one of them, by name.

    Raises:
        Missing: The branch has none of this name, or the principal does not see it.
    """
    if location.name == "sources":
        found = connectors.sources(access.snapshots, access, name=of)["sources"]
        history_of = connector_metrics.history_of_source
    else:
        found = connectors.sinks(access.snapshots, access, name=of)["sinks"]
        history_of = connector_metrics.history_of_sink
    shown: dict[str, object] = {"of": of, "part": part_of(found, part)}
    if of is None:
        return shown
    jobs = connector_metrics.jobs_of_connector(access, of)
    history = history_of(jobs, access.ledger, span)
    return shown | {
        "jobs": job_rows(jobs, access.ledger.watermarks.by_feed()),
        "history": history,
        "plots": plots(history),
    }

"""`POST /log` of Fennel's client: its columns in our form, then ingested as ours."""

from fastapi import APIRouter

from narthex._ir import DataType, WebhookEndpoint
from narthex_server.data.ingestion import AcceptedRows, LogCall, feeding, log_rows, raw_name
from narthex_server.fennel_client.matching import FennelRoute
from narthex_server.fennel_client.row_values import rendered_as_ours
from narthex_server.security.request_access import AccessDep
from narthex_server.security.request_identity import IdentityDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.container import ServicesDep

router = APIRouter(route_class=FennelRoute, dependencies=[requires(Right.WRITE_DATA)])


@router.post("/log")
def log_columns(
    call: LogCall, services: ServicesDep, access: AccessDep, caller: IdentityDep
) -> AcceptedRows:
    """Accept rows, or refuse the whole call and name every bad row."""
    if isinstance(call.data, dict):
        wanted = WebhookEndpoint(webhook=call.webhook, endpoint=call.endpoint)
        raw: dict[str, DataType] = {}
        for one in feeding(access, wanted)[2]:
            for field in one.dataset.schema.fields:
                raw.setdefault(raw_name(one.source, field.name), field.type)
        call.data = rendered_as_ours(call.data, raw)
    return log_rows(call, services, access, caller)

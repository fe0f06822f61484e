"""`POST /query_offline` of Fennel's client: its spine in our form, then queued as ours."""

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, JsonValue

from narthex.errors import NotYetSupported
from narthex_server.data.offline_queries import OfflineCall, QueuedQuery, query_offline
from narthex_server.fennel_client.matching import FennelRoute
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.container import ServicesDep

router = APIRouter(route_class=FennelRoute, dependencies=[requires(Right.READ_DATA)])


class SpineCall(BaseModel):
    """A spine, and the features to compute for it, as Fennel's client sends them.

    `use_v2`, `workflow` and `num_dpus` select and size jobs that a platform does not have.
    """

    model_config = ConfigDict(extra="ignore")

    input_features: list[str]
    output_features: list[str]
    timestamp_column: str
    input: dict[str, dict[str, JsonValue]]
    s3_output: JsonValue = None


@router.post("/query_offline")
def queue_query(call: SpineCall, services: ServicesDep, access: AccessDep) -> QueuedQuery:
    """Queue an offline query over a frame, and return its id."""
    columns = call.input.get("Pandas")
    if columns is None or call.s3_output is not None:
        raise NotYetSupported(
            "offline queries from and to S3",
            hint="pass `input_dataframe`, and read the answers at `query_offline/answers`",
        )
    return query_offline(
        OfflineCall(
            inputs=call.input_features,
            outputs=call.output_features,
            timestamp_column=call.timestamp_column,
            data={name: [*column] for name, column in columns.items() if isinstance(column, list)},
        ),
        services,
        access,
    )

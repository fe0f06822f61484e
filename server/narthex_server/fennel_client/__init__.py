"""Routes for Fennel's own client, where it sends or expects another form than ours.

They have the paths of our routes, and match only requests of that client. All its other calls reach
our routes.
"""

from fastapi import APIRouter

from narthex_server.fennel_client import commits, ingestion, offline_queries

router = APIRouter()
for _module in (commits, ingestion, offline_queries):
    router.include_router(_module.router)

__all__ = ["router"]

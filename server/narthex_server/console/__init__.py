"""The console: HTML pages that the server renders; each works without scripts.

Each page reads its JSON twin through the same function, renders it, and links to it.
"""

from fastapi import APIRouter

from narthex_server.console import approvals, data_docs, pages, sign_in, usage_pages

__all__ = ["router"]

router = APIRouter()
router.include_router(pages.router)
router.include_router(approvals.router)
router.include_router(data_docs.router)
router.include_router(usage_pages.router)
router.include_router(sign_in.router)

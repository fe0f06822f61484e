"""Small backfills run in a driver that is up already.

Starting a Spark of their own would cost more than they do.
"""

from uuid import UUID

from narthex.settings import Settings
from narthex_ledger import Ledger
from narthex_server.deploy.backfill_estimates import asking, rows_to_read


def is_in_driver(commit_id: UUID, *, ledger: Ledger, settings: Settings) -> bool:
    """Return whether a running driver carries out a commit's backfill; request it if it is small.

    A backfill of unknown size is not small. What a driver did not begin in time, or did not end,
    is for the caller to run in a Spark of its own.
    """
    found = ledger.driver_backfills.is_in_driver(commit_id)
    if found is not None:
        return found
    is_small = _is_small(commit_id, ledger, settings)
    if is_small:
        ledger.driver_backfills.request(commit_id)
    return is_small


def _is_small(commit_id: UUID, ledger: Ledger, settings: Settings) -> bool:
    due = [job.asset for job in ledger.backfills.due(commit_id)]
    rows = rows_to_read(due, asking(settings), settings.files_root)
    return rows is not None and rows <= settings.driver_backfill_rows

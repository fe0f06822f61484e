"""The changes of a commit to the values that readers read, for the person who approves it."""

from typing import Final
from uuid import UUID

from narthex_ledger import Ledger
from narthex_server.security.dataset_access import Access
from narthex_server.security.route_rights import Right
from narthex_server.services.value_diff_reports import DatasetDiff, value_diff

SIDES: Final = ("before", "with the commit")


def value_differences(
    ledger: Ledger, access: Access, commit_id: UUID, *, branch: str
) -> list[DatasetDiff]:
    """Return the diffs of a commit that the principal sees, as far as they are done."""
    return [
        value_diff(
            diff.dataset,
            diff.result,
            diff.examples,
            sees=lambda name: sees_input(access, branch, name),
            has_values=Right.READ_DATA in access.principal.rights,
            sides=SIDES,
        )
        for diff in ledger.value_diffs.of_commit(commit_id)
        if access.sees_entity(branch, diff.dataset)
    ]


def sees_input(access: Access, branch: str, name: str) -> bool:
    """Return whether the principal sees a dataset, or a feature by its full name."""
    if "." in name:
        return access.sees_feature(branch, name)
    return access.sees_dataset(branch, name)

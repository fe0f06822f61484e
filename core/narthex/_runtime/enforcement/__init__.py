"""Judge rows by the expectations that jobs enforce; rows that break one are not in the dataset."""

from narthex._runtime.enforcement.row_judge import BrokenRow, ReportBroken, RowJudge

__all__ = ["BrokenRow", "ReportBroken", "RowJudge"]

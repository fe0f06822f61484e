"""The codes with which commands exit, and the commands that exit with 1 to report a finding."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """The codes with which commands exit."""

    DONE = 0
    YOUR_MISTAKE = 1
    FOUND = 1
    USAGE = 2
    OUR_FAULT = 3
    STOPPED = 130


MEANINGS: Final[Mapping[ExitCode, str]] = {
    ExitCode.DONE: "Done",
    ExitCode.YOUR_MISTAKE: "Your definitions, rows, arguments or rights are wrong, and nothing was "
    "changed; or the command found what it looks for (below)",
    ExitCode.USAGE: "The command line is wrong",
    ExitCode.OUR_FAULT: "The platform is not reachable, not healthy, or failed",
    ExitCode.STOPPED: "You stopped the command",
}
FINDINGS: Final[Mapping[str, str]] = {
    "alerts test": "A receiver did not take the message",
    "audit": "Without a name: a store differs from the ledger. With several: one could not be "
    "audited because of its definition or its rows, and the others were",
    "check": "The file has mistakes",
    "connection test": "Definitions of the branch cannot use the connection",
    "control-log": "With `--verify`: the log was changed",
    "diff": "A value differs",
    "drift": "A feature or a column has a critical drift",
    "erasures verify": "The certificate is not the installation's, or does not cover the key",
    "keys rotate": "Rows do not match their signatures, so they were not signed again",
    "policy check": "The file has mistakes",
    "prove": "A dataset, an index, a history or an answer differs",
    "quarantine replay": "A row is still rejected",
    "status": "No service runs",
}
"""For each command that exits with 1 without a mistake of its caller: the finding."""

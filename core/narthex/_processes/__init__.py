"""Child processes of any room: started, identified, and ended with all that they started.

Start with `process_group`, which starts a child in a group of its own and ends the whole group.
`process_table` finds processes and distinguishes them from later ones with the same pid, and
`die_with_parent` is the program that makes the kernel end a child with its parent.
"""

from narthex._processes.process_group import (
    ProcessGroup,
    dying_with_parent,
    end_leftovers,
    end_own_group,
    kill_session,
)
from narthex._processes.process_table import (
    Process,
    RunningProcess,
    environment_of,
    find_process,
    in_sessions,
    is_alive,
    load_process,
    process_of,
    running_processes,
    send_signal,
    wait_gone,
)

__all__ = [
    "Process",
    "ProcessGroup",
    "RunningProcess",
    "dying_with_parent",
    "end_leftovers",
    "end_own_group",
    "environment_of",
    "find_process",
    "in_sessions",
    "is_alive",
    "kill_session",
    "load_process",
    "process_of",
    "running_processes",
    "send_signal",
    "wait_gone",
]

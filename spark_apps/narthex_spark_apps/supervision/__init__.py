"""The supervisor: holds leases on slots, starts the child processes and assigns jobs to them.

`supervisor` is the loop. `child_messages` is the protocol between it and its children,
`child_process` starts and restarts one child, `supervisor_lock` allows one supervisor for each
directory, and `report_throttle` limits the reports to the ledger. `child` is the other side: the
loop of each child process. When a lease is lost, `supervisor` takes the jobs of its slots away, and
`child.lease_inbox` stops a child whose leases expire before it hears from its supervisor.
"""

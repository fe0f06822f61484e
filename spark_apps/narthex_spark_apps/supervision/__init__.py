"""The supervisor: holds leases on slots, starts a driver and assigns jobs to it.

`supervisor` is the loop, `supervisor_lock` allows one supervisor for each directory, and
`report_throttle` limits the reports to the ledger. A runner is what runs assigned jobs: a driver,
or a standing task of a driver. `supervised_runner` starts and restarts one, `process_instance` is
a runner that is a process, and `runner_messages` is the protocol. `runner` is the other side: the
loop of each runner. When a lease is lost, `supervisor` takes the jobs of its slots away, and
`runner.lease_inbox` stops a runner whose leases expire before it hears from its supervisor.
"""

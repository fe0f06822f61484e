"""The operator: one process that starts, watches and restarts the services of an installation.

`main` is the process, `service_loop` keeps one service running, `status` is its report, and
`stack` is the object by which `narthex up` controls it.
"""

"""The operator: one process that starts, watches and restarts the services of an installation.

`main` is the process, `service_loop` keeps one service running, `status` is what it reports, and
`stack` is the value by which `narthex up` controls it.
"""

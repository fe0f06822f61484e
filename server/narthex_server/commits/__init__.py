"""Commits: their routes, plans, rollbacks and approvals; and the lifecycle of branches.

`commits` has the routes of a commit; `narthex_server.deploy` carries out its steps.
"""

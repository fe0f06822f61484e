"""Commits: their routes, plans, rollbacks and approvals; and the lifecycle of branches.

`commits` has the routes of a commit, and `commit_steps` those of its steps;
`narthex_server.deploy` carries these out.
"""

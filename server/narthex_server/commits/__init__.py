"""Commits and what decides their fate: plans, rollbacks, approvals, and the life of branches.

`commits` has the routes of a commit; its steps are carried out in `narthex_server.deploy`.
"""

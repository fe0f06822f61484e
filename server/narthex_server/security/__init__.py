"""Authentication, authorization, tokens, secrets and the audit log of requests.

`auth` finds the principal of a request and the right of each route. `branch_scope` restricts
branches and `visibility` restricts datasets by tags: read them to learn who may read a dataset.
"""

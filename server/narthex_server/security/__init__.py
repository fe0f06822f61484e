"""Authentication, authorization, tokens, secrets and the audit log of requests.

`request_checks` finds the principal of a request and checks the right that its route declares
(`route_rights`). `dataset_access` decides which branches, datasets and features the principal may
read: start there to learn who may read a dataset. `visibility` filters an answer by its result.
"""

"""The transactions of a commit, from the plan to its end.

In order: `planning` (T1), `creation` of assets and the commit point, `promotion` of readers, and
`ending`. `api` is its part of the ledger's API; start there.
"""

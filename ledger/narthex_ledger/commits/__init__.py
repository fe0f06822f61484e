"""The transactions of a commit, from the plan to its end.

In order: `planning` (T1), `creation` of assets and the commit point, `promotion` of readers, and
`ending`. `commit_api` has `ledger.commits`, `ledger.assets` and
`ledger.promotions`; start there.
"""

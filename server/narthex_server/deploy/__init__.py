"""Deployment: the steps of a commit, and the loops that carry them out.

`executor` has the steps, each idempotent. Airflow asks for them (`airflow_client`,
`airflow_runs`, `airflow_approvals`), and `recovery` does when Airflow is silent.
`garbage_collector` destroys unpinned assets, `auditor` compares stores with the ledger, and
`store_ownership` protects stores of another ledger. `plan_report` and `backfill_estimates`
describe a plan to people.
"""

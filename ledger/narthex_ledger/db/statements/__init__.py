"""Every statement of the ledger, one function each; docstrings document locks and visibility.

Lock order: branch, deploy_commit, pin, asset (by kind, fingerprint), ledgers, job, job_shard,
slot_lease, registry_version. Decisions after a lock use rows read by a later statement.
"""

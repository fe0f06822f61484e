"""Every statement of the ledger, one function each, saying what it locks and what others see.

Lock order: branch, deploy_commit, pin, asset (by kind, fingerprint), ledgers, job, job_shard,
slot_lease, registry_version. What is decided after a lock is read by a later statement.
"""

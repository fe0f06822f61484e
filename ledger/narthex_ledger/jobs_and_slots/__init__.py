"""The job registry, slots and engines: which job runs where, and under which epoch.

`job_registry` has the transactions, `rendezvous` the placement of slots, and `job_api` has
`ledger.jobs`, `ledger.backfills`, `ledger.engines` and `ledger.slots`; `watermark_api` has
`ledger.watermarks`.
"""

"""The state of jobs: rows that stateful steps keep, and checkpoint directories.

`job_state` stores the rows, and with `indexes.lmdb.offsets_and_epoch` the Kafka offsets of a job.
"""

"""The index in LMDB: `index` is the API, and `environment` the tables.

`offsets_and_epoch` stores the Kafka offsets that an index contains, and its writer's epoch.
"""

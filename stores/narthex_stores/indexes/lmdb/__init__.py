"""The index in LMDB: `index` is the API, and `writing` applies facts.

`index_snapshot` answers lookups, and `window_results` computes the results of windows for it.
`offsets_and_epoch` stores the Kafka offsets that an index contains, and its writer's epoch.
"""

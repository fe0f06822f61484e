"""Kafka: topics, producers and consumers of logs, and end offsets.

The offsets that a reader has processed are stored with what it made of them: in
`indexes.lmdb.offsets_and_epoch` for indexes and job states, and in `history.table`.
"""

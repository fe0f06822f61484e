"""The index in LMDB: `index` is the door, `writing` applies facts and `reading` answers lookups."""

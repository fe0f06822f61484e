"""The index in LMDB: `index` is the API, `writing` applies facts and `reading` answers lookups."""

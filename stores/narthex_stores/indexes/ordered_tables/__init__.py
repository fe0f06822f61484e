"""An index as three ordered tables of bytes: what every store of indexes shares.

`writing` applies facts and `tiles` keeps tiles up to date, inside one transaction of the store.
`index_snapshot` answers lookups; `window_results` and `validity_folds` compute aggregates for it.
"""

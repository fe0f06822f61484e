"""The command `narthex prove`: compare the platform with its definitions, row by row.

The reference engine recomputes everything from the logs of the datasets that sources fill, and
compares the result with the logs of the other datasets, with indexes and with histories. Start with
`proof`; `prove_command` loads it only when the command runs.
"""

"""Values and state machines of the ledger, without a database.

`states` has every state and its transitions, `views` what callers receive, and `plans` what a
commit implies.
"""

"""Values and state machines of the ledger, without a database.

`states` has every state and its transitions, `rows` the rows that statements return, `views` the
values that callers receive, and `plans` the effects of a commit.
"""

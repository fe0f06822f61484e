"""Alerts: rules that find what a person should know, and messages to the operator's receivers.

* `configuration`: the file `alerts.toml`; `observations`: what the rules are evaluated on.
* `rules`: from observations to findings; `notices`: from findings to messages. Both are pure.
* `messages`: the content of a message; `receivers`: its delivery.
* `evaluator`: the loop; `routes`: the API.

Start with `rules`, then `notices` and `evaluator`.
"""

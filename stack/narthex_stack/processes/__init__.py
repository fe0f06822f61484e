"""The services of an installation as processes: described, started, and found after a crash.

`service` describes and starts one, `leftovers` finds those of an operator that was killed.
"""

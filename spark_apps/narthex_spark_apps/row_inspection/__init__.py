"""Inspect the rows of sources.

`quarantine_replay` lists and replays rejected rows, which are not in their dataset. `late_rows`
lists late rows, which are in their dataset: lateness changes no result. `inspection_process` is the
program by which the server does so.
"""

"""Requests that arrive more than once: commits, offline queries, training sets and
webhook calls.

`commit_requests` accepts a commit, leases it to an executor, and checks the executor's fence.
"""

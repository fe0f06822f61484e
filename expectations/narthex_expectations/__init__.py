"""Expectations: expectations about rows, held against them by Great Expectations.

The door is the command `narthex audit`; importing the package imports none of its parts, so that
the command line does not wait for Great Expectations.
"""

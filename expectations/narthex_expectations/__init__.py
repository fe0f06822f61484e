"""Checks of rows against their datasets' expectations, by Great Expectations.

The entry point is the command `narthex audit`; importing the package imports none of its modules,
so that the command line does not wait for Great Expectations.
"""

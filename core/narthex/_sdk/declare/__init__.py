"""Declarations: the records of decorators and calls in an author's file."""

"""Declarations: what decorators and calls in an author's file become."""

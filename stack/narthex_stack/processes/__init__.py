"""Processes of this machine: started, identified, and ended with their parent.

`service` describes and starts a process, `process_table` finds processes, and `die_with_parent`
is the program that makes the kernel end a child with its parent.
"""

"""What the definitions of a branch mean: compiled, checked, and walked as a graph of data flow.

`compilation` turns a payload into definitions and reports every mistake. `data_flow` lists what
feeds what; `inherited_tags` follows tags along it.
"""

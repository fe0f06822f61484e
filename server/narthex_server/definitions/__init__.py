"""The definitions of a branch: compiled, checked, and walked as a graph of data flow.

`compilation` turns a payload into definitions and reports every mistake. `data_flow` lists the
edges of the graph; `inherited_tags` follows tags along them.
"""

"""Files on disks and in object stores.

`file_store` lists and reads files of sources, and `snapshots` takes and restores copies of indexes
and job states.
"""

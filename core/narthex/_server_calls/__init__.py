"""The calls of a server over HTTP, as `narthex.client` has them, without frames.

- `plain_client`: the client whose calls take and return plain values; the command line uses it.
- `transport`: requests and responses, and `query_calls`: those of queries, for any transport.
- `administration`, `drift`, `offline_records`, `row_inspection`, `value_diffs`: calls by subject.

Nothing here loads pandas, so commands start fast. Start with `plain_client`.
"""

"""The calls of a server over HTTP, as `narthex.client` has them, without frames.

- `plain_client`: the client whose calls take and return plain values; the command line uses it.
- `transport`: requests and responses, and `query_calls`: those of queries, for any transport.
- `administration`, `drift`, `offline_records`, `row_inspection`, `value_diffs`: calls by subject.

Nothing here loads pandas, so commands start fast. Start with `plain_client`.
"""

from narthex._server_calls.plain_client import COMMIT_TIMEOUT_S, PlainClient
from narthex._server_calls.references import dataset_name
from narthex._server_calls.transport import Body, Parameters
from narthex._server_calls.waiting import Tell

__all__ = ["COMMIT_TIMEOUT_S", "Body", "Parameters", "PlainClient", "Tell", "dataset_name"]

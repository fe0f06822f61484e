"""The hook of the connection type `narthex`: a client of the server that a connection names."""

from airflow.sdk import BaseHook
from typing_extensions import override

from narthex.client import Client
from narthex.errors import NarthexError
from narthex_plugins.platform_client import CONNECTION, url_of


class NarthexHook(BaseHook):
    """The client of a Narthex server, for tasks.

    The connection has the server as its host (a name, or a URL), its port, `http` or `https` as its
    schema, and a token as its password.
    """

    conn_name_attr = "narthex_conn_id"
    default_conn_name = CONNECTION
    conn_type = "narthex"
    hook_name = "Narthex"

    def __init__(self, narthex_conn_id: str = CONNECTION, branch: str | None = None) -> None:
        """Use a connection, which is read by `get_conn`, and a branch [main]."""
        super().__init__()
        self.narthex_conn_id = narthex_conn_id
        self.branch = branch

    @override
    def get_conn(self) -> Client:
        connection = self.get_connection(self.narthex_conn_id)
        return Client(url_of(connection), connection.password or "", self.branch)

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the server accepts the token, and a sentence for the person who asks."""
        try:
            self.get_conn().list_branches()
        except NarthexError as error:
            return False, str(error)
        return True, "the server answers and accepts the token"

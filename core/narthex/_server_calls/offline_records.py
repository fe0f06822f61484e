"""The client's calls for offline queries and training sets that exist, without their rows."""

from narthex._base.records import Json
from narthex._server_calls.answers import items_in
from narthex._server_calls.transport import Caller


class OfflineRecords:
    """The calls of a client that list, show, cancel and delete offline queries and their sets."""

    _transport: Caller

    def offline_queries(self, limit: int = 20, before: str | None = None) -> list[dict[str, Json]]:
        """Return the newest offline queries of the branch, each as `track_offline_query` does.

        Args:
            limit: The greatest number of queries; at most 100.
            before: The id of a query; only those before it are returned.
        """
        parameters: dict[str, str | int] = {
            "limit": limit,
            **({"before": before} if before else {}),
        }
        return items_in(self._transport.read("offline_queries", parameters).body, "queries")

    def track_offline_query(self, request_id: str) -> dict[str, Json]:
        """Return the status of an offline query; `share` is the share of it that is done."""
        return self._part(request_id, "status")

    def cancel_offline_query(self, request_id: str) -> dict[str, Json]:
        """Cancel an offline query that has not ended."""
        path = "query_offline/cancel"
        return self._transport.send(path, parameters={"request_id": request_id}).body

    def training_sets(self, limit: int = 20, before: str | None = None) -> list[dict[str, Json]]:
        """Return the newest training sets of the branch, without their rows and statistics.

        Args:
            limit: The greatest number of sets; at most 100.
            before: The name of a set; only those that were stored before it are returned.
        """
        parameters: dict[str, str | int] = {"limit": limit}
        if before is not None:
            parameters["before"] = before
        return items_in(self._transport.read("training_sets", parameters).body, "training_sets")

    def delete_training_set(self, name: str) -> None:
        """Delete a training set with its rows; its name can be used again.

        Raises:
            Refused: There is none of that name, or the token may not commit.
        """
        self._transport.send(f"training_sets/{name}", verb="DELETE")

    def _part(self, request_id: str, part: str) -> dict[str, Json]:
        return self._transport.read(f"query_offline/{part}", {"request_id": request_id}).body

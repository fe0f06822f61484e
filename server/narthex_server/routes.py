"""Routes whose answers are sent as they are: they are built of plain JSON already."""

from fastapi.routing import APIRoute
from typing_extensions import override


class PlainRoute(APIRoute):
    """A route that makes no model of its answer and does not check it a second time."""

    @override
    def __init__(self, *arguments: object, **options: object) -> None:
        options["response_model"] = None
        super().__init__(*arguments, **options)  # type: ignore[arg-type]

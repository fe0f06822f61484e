"""The console: HTML pages that the server renders from the API's answers, without scripts.

Each page reads its JSON twin through the same function, renders it, and links to it.
"""

from narthex_server.console.pages import router

__all__ = ["router"]

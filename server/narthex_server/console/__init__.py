"""The console: pages made on the server of what the API answers, without any script.

Each page is its JSON twin, read by the same function and rendered; it links to it.
"""

from narthex_server.console.pages import router

__all__ = ["router"]

"""The server: commits and rows in, answers out, and the console.

* `app`: the ASGI application; `web`: HTTP without any knowledge of the platform.
* `security`: who asks, and what they may do and see.
* `data`: rows and queries; `commits`: commits and branches; `catalog`: what serves on a branch.
* `operations`: metrics and upkeep; `console`: pages for people.
* `deploy`: the steps of a commit and the loops that carry them out.
* `services`: what all requests share; `definitions`: what a payload means.

Start with `app`, then `services.container`.
"""

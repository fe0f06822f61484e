"""The HTTP server: commits, ingestion, queries, and the console.

* `app`: the ASGI application; `web`: HTTP, independent of the platform.
* `security`: authentication, and what each principal may do and see.
* `sso`: single sign-on at a provider of OpenID Connect.
* `data`: ingestion and offline queries; `reads`: online queries and lookups.
* `commits`: commits and branches; `catalog`: deployed entities.
* `alerts`: rules that find what a person should know, and messages to receivers.
* `lineage_events`: lineage for other systems, as OpenLineage.
* `operations`: metrics and upkeep; `console`: pages for people.
* `fennel_client`: what Fennel's own client sends in another form.
* `deploy`: the steps of a commit and the loops that carry them out.
* `erasures`: rows of keys are found, removed from all stores, and searched for.
* `services`: the objects that all requests share; `definitions`: the compilation of payloads.
* `tracing`: OpenTelemetry traces of requests and commits.
* `errors`: why a request is refused; `web` maps each to a response.

Start with `app`, then `services.container`.
"""

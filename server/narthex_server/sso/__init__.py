"""Single sign-on by OpenID Connect: people sign in at the company's provider, groups grant roles.

* `configuration`: the file `sso.toml`; `provider`: the calls to the provider.
* `id_tokens`: the checks of what the provider says about a person.
* `sign_in`: one sign-in of a browser, from the request to the session.
"""

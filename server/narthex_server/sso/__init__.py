"""Single sign-on by OpenID Connect: people sign in at the company's provider, groups grant roles.

* `configuration`: the file `sso.toml`; `provider`: the calls to the provider.
* `id_tokens`: the checks of ID tokens, and the person whom one names.
* `sign_in`: one sign-in of a browser, from the request to the session.
"""

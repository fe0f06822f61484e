"""The processing of rows in jobs and servers.

- `ingest` converts raw rows of a source to facts, or rejects them.
- `steps` are the operators of pipelines, each from rows to rows.
- `template` is the process from which workers are forked.
- `workers` are the sandboxed processes that run authors' code.
- `credentials` resolves secrets that definitions name.
"""

from narthex._runtime.credentials import SECRET_NAME, SecretFiles, reveal

__all__ = [
    "SECRET_NAME",
    "SecretFiles",
    "reveal",
]

"""The errors of stores.

StoreError
├── TransientError            nothing is known to be wrong with the call: repeat it
└── PermanentError            the same call fails again: change something first
    ├── ForeignAssetError     the existing thing was not created by us
    └── MalformedNameError    not a name that this installation creates
"""


class StoreError(Exception):
    """A call to a store failed."""


class TransientError(StoreError):
    """The store did not answer, or not in time; the call may have taken effect.

    Every call is idempotent: repeat it.
    """


class PermanentError(StoreError):
    """The store refused; the same call will be refused again."""


class ForeignAssetError(PermanentError):
    """The name belongs to something else: another external id, or no mark of ours.

    It is never changed and never destroyed.
    """


class MalformedNameError(PermanentError):
    """The name is not one that `physical_name` returns, so it is not used."""

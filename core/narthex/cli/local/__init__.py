"""Commands that work on the machine of their user: a project, a sign-in, a shell."""

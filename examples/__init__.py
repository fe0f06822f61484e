"""Complete feature projects, each runnable and tested."""

"""The index writer and the history writer: standing tasks that tail dataset logs into stores."""

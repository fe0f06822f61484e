"""The index writer and the history writer: processes that tail dataset logs into stores."""

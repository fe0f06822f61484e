"""LMDB environments: opened, resized, made durable, and copied as snapshots."""

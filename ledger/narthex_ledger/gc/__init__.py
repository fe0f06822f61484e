"""Garbage collection: unpinned assets are destroyed, and stores are audited against the ledger."""

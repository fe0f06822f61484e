"""The ledger's events for lineage, and how far they were sent."""

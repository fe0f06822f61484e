"""Read-only routes about a branch: datasets, featuresets, jobs, audits, assets and lineage."""

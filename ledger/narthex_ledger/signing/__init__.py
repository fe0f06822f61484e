"""Signatures of commits, assets and manifests, and the check of rows that are read back."""

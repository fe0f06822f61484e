"""One file a step; each says whether it comes before (`pre`) or after (`post`) the new code."""

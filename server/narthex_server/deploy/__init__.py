"""The deployment core's hands: steps of a commit, taken by whoever asks, and asked for by all."""

"""What a definition means, as code: slow, obvious, and the judge of every other engine."""

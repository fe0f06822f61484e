"""What a definition means, as code: slow, obvious, and the judge of every other engine."""

from narthex_reference.author_code import Frame, UserCodeRunner
from narthex_reference.engine import Answer, Engine, Made
from narthex_reference.reference import NotAskableError, Reference

__all__ = ["Answer", "Engine", "Frame", "Made", "NotAskableError", "Reference", "UserCodeRunner"]

"""The template from which workers of author code are forked; importing it starts no thread."""

from narthex._runtime.template.template import ForkedWorker, NoTemplateError, template

__all__ = [
    "ForkedWorker",
    "NoTemplateError",
    "template",
]

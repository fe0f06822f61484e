"""The log of a process: lines for people, or JSON objects for programs.

Neither shows the values of variables in a traceback: some are secrets, or rows of any branch. The
library that renders logs would show them unless each process says otherwise.
"""

import sys
from typing import TextIO

import structlog
from structlog.tracebacks import ExceptionDictTransformer

from narthex.settings import JSON_LOGS, Settings


def open_log(settings: Settings, stream: TextIO = sys.stdout) -> None:
    """Log in the form that the installation asks for."""
    if settings.log_format == JSON_LOGS:
        log_json(stream)
    else:
        log_lines(stream)


def log_lines(stream: TextIO = sys.stdout) -> None:
    """Log one line for each event, and plain tracebacks."""
    renderer = structlog.dev.ConsoleRenderer(
        colors=False, exception_formatter=structlog.dev.plain_traceback
    )
    _configure([renderer], stream)


def log_json(stream: TextIO = sys.stdout) -> None:
    """Log one JSON object for each event, with the frames of tracebacks as lists."""
    frames = structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False))
    _configure([frames, structlog.processors.JSONRenderer()], stream)


def _configure(rendering: list[structlog.typing.Processor], stream: TextIO) -> None:
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.StackInfoRenderer(),
            structlog.dev.set_exc_info,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *rendering,
        ],
        logger_factory=structlog.PrintLoggerFactory(stream),
    )

"""Authors' code, run in processes that can do nothing but compute."""

from narthex.workers.arrow_cells import array_of, arrow_type, cells_of
from narthex.workers.pool import Limits, WorkerPool
from narthex.workers.process import Sandbox

__all__ = ["Limits", "Sandbox", "WorkerPool", "arrow_type", "array_of", "cells_of"]

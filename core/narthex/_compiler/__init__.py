"""Compile definitions into a blueprint: the assets that a commit needs.

- `blueprint` is the entry; `blueprint_builder` collects the assets, each once.
- `dataset_assets`, `log_specs`, `producer_jobs` and `sink_jobs` add them.
- `state_requirements` finds steps that need a stateful job; `log_reuse` reuses a former log;
  `partitions` decides how logs are divided.
- `capability` refuses definitions that no job can run yet.
"""

from narthex._compiler.blueprint import compile_blueprint
from narthex._compiler.capability import not_carried_out
from narthex._compiler.log_reuse import reuse_logs
from narthex._compiler.partitions import decide_partitions
from narthex._compiler.sink_jobs import target_id

__all__ = [
    "compile_blueprint",
    "decide_partitions",
    "not_carried_out",
    "reuse_logs",
    "target_id",
]

"""The Data Context of an installation: suites, Checkpoints, validation results and Data Docs.

* `validation_runs`: validations whose results the Data Context stores; start here.
* `file_lock`: what one process does at a time.
* `great_expectations.yml`: its configuration, which names the classes of `stores` and `pages`.

Great Expectations itself imports `stores` and `pages`, by their names in the configuration.
"""

from narthex_expectations.data_context.validation_runs import (
    Asset,
    DataContext,
    ValidationRun,
    interval_name,
)

__all__ = ["Asset", "DataContext", "ValidationRun", "interval_name"]

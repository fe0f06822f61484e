"""Checks of rows against their datasets' expectations, and comparisons of values.

* `audit_command`: `narthex audit`; `audit_runs`: a run of it.
* `audits`: the checks of a span of rows; `audit_results`: their results.
* `suites`: expectations as suites; `frames`: the rows.
* `data_context`: the Data Context, which stores suites and validation results, and makes Data Docs.
* `comparisons`: comparisons of the values of two branches.
* `hourly_summaries`: a run of `narthex summarize`, which counts the logged answers of features by
  the hour.
* `server_client`: the server's API, which has the datasets and stores the results.

Start with `audits`. Great Expectations takes seconds to import; the first check that has rows
imports it.
"""

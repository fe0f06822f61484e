"""Checks of rows against their datasets' expectations, and comparisons of values.

* `audit_command`: `narthex audit`.
* `audits`: the checks of a span of rows; `suites`: expectations as suites; `frames`: the rows.
* `value_diffs`: comparisons of values; `differences`: their counts, `causes`: what they are due to.
* `answer_summaries`: `narthex summarize`, which counts the logged answers of features by the hour.
* `server_client`: the server's API, which has the datasets and stores the results.

Start with `audits`. Importing the package imports none of its modules, so that `narthex summarize`
does not wait for Great Expectations.
"""

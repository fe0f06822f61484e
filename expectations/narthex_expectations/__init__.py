"""Checks of rows against their datasets' expectations, by Great Expectations.

* `commands`: the entry point `narthex audit`, which runs `__main__` in a separate process.
* `audits`: the checks of a span of rows; `suites`: expectations as suites; `frames`: the rows.
* `answer_summaries`: `narthex summarize`, which counts the logged answers of features by the hour.
* `server_client`: the server's API, which has the datasets and stores the results.

Start with `audits`. Importing the package imports none of its modules, so that the command line
does not wait for Great Expectations.
"""

-- What a commit changes in the values of a dataset, computed before its readers flip. The result has
-- counts; the examples have keys and values of rows, so they are deleted early.
CREATE TABLE value_diff (
    commit_id uuid NOT NULL REFERENCES deploy_commit,
    dataset text NOT NULL,
    result jsonb NOT NULL,
    examples jsonb,
    at timestamptz NOT NULL DEFAULT ledger_now(),
    PRIMARY KEY (commit_id, dataset)
);

-- A quality gate is the audit of the whole history of a dataset that a commit creates or changes:
-- one per dataset, so that Airflow and the recovery loop may both store its outcome.
ALTER TABLE audit ADD COLUMN commit_id uuid REFERENCES deploy_commit;
-- Whether a critical expectation was broken. Expectations had no severity before.
ALTER TABLE audit ADD COLUMN is_critical boolean NOT NULL DEFAULT false;
-- The keys of some rows that break each expectation. They name people, so they are deleted early.
ALTER TABLE audit ADD COLUMN examples jsonb;
CREATE UNIQUE INDEX audit_gate ON audit(commit_id, dataset) WHERE commit_id IS NOT NULL;

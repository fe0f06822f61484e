-- A small backfill runs in a driver that is up already, once. The row is deleted when that run is
-- done; a run that was not begun in time, failed, or lost its driver is repeated elsewhere.
CREATE TABLE driver_backfill(
  commit_id uuid PRIMARY KEY REFERENCES deploy_commit,
  state text NOT NULL DEFAULT 'queued' CHECK (state IN ('queued','running','failed')),
  owner text, expires_at timestamptz NOT NULL,
  error text,
  requested_at timestamptz NOT NULL DEFAULT ledger_now(),
  CHECK ((state='running') <= (owner IS NOT NULL)),
  CHECK ((state='failed') = (error IS NOT NULL)));

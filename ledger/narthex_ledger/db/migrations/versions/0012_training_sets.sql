-- A training set keeps the spine and the answers of an offline query under a name. It outlives the
-- commit and the branch that it was answered from, so it refers to neither.
CREATE TABLE training_set(
  training_set_id uuid PRIMARY KEY,
  branch text NOT NULL,
  name text NOT NULL,
  request_id uuid NOT NULL REFERENCES offline_query,
  commit_id uuid NOT NULL,
  content_sha256 bytea NOT NULL CHECK (octet_length(content_sha256)=32),
  data_sha256 bytea NOT NULL CHECK (octet_length(data_sha256)=32),
  rows bigint NOT NULL CHECK (rows > 0),
  description jsonb NOT NULL,
  signature bytea,
  created_at timestamptz NOT NULL DEFAULT ledger_now(),
  UNIQUE(branch, name));
CREATE INDEX training_set_newest ON training_set(branch, created_at, training_set_id);
CREATE TRIGGER training_set_immutable BEFORE UPDATE ON training_set FOR EACH ROW EXECUTE FUNCTION refuse_change();
-- A branch lists its offline queries, the newest first.
CREATE INDEX offline_of_branch ON offline_query((request->>'branch'), submitted_at, request_id);

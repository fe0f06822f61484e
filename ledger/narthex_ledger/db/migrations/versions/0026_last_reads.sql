-- When queries last read a dataset or a feature of a branch, or the branch as a whole (name ''), and
-- since when that is counted: since the entity was first seen among what readers of the branch read.
-- A row ends when they no longer do, and with its branch.
CREATE TABLE last_read(
  branch_id bigint NOT NULL REFERENCES branch,
  kind text NOT NULL CHECK (kind IN ('branch', 'dataset', 'feature')),
  name text NOT NULL CHECK ((kind = 'branch') = (name = '')),
  counted_since timestamptz NOT NULL DEFAULT ledger_now(),
  read_at timestamptz CHECK (read_at >= counted_since),
  PRIMARY KEY(branch_id, kind, name));

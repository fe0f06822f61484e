-- Up to where the log of logged queries has been summarized; it moves with the summaries.
CREATE TABLE answer_offset(
  partition int PRIMARY KEY CHECK (partition >= 0),
  next_offset bigint NOT NULL CHECK (next_offset >= 0));
-- The logged answers of one feature in one hour. Summaries outlive their commits and branches, so
-- they refer to neither, and have no values of keys.
CREATE TABLE feature_summary(
  branch text NOT NULL,
  feature text NOT NULL,
  hour timestamptz NOT NULL CHECK (hour = date_trunc('hour', hour, 'UTC')),
  summary bytea NOT NULL,
  PRIMARY KEY(branch, feature, hour));
CREATE INDEX feature_summary_hour ON feature_summary(hour);
-- A window of hours that answers are compared with, merged when it was pinned.
CREATE TABLE pinned_window(
  branch text NOT NULL,
  name text NOT NULL,
  feature text NOT NULL,
  from_at timestamptz NOT NULL,
  to_at timestamptz NOT NULL CHECK (to_at > from_at),
  summary bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT ledger_now(),
  PRIMARY KEY(branch, name, feature));
-- The comparison of the answers of one feature in [from_at, to_at) with a reference.
CREATE TABLE feature_drift(
  branch text NOT NULL,
  feature text NOT NULL,
  reference_kind text NOT NULL CHECK (reference_kind IN ('training_set', 'window')),
  reference text NOT NULL,
  from_at timestamptz NOT NULL,
  to_at timestamptz NOT NULL CHECK (to_at > from_at),
  rows bigint NOT NULL CHECK (rows >= 0),
  reference_rows bigint NOT NULL CHECK (reference_rows >= 0),
  is_compared boolean NOT NULL,
  severity text CHECK (severity IN ('warning', 'critical')),
  metrics jsonb NOT NULL,
  at timestamptz NOT NULL DEFAULT ledger_now(),
  PRIMARY KEY(branch, feature, reference_kind, reference, from_at, to_at));
CREATE INDEX feature_drift_at ON feature_drift(at);

-- A subject of which samples are taken, and its counters as of the newest sample: a sample has by how
-- much they grew, so they outlive the server. Series outlive their branches and assets.
CREATE TABLE metric_series(
  series_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('dataset', 'job', 'process')),
  branch text NOT NULL,
  subject text NOT NULL,
  counters jsonb NOT NULL DEFAULT '{}',
  sampled_at timestamptz,
  UNIQUE(kind, branch, subject));
-- One sample for each bucket of so many minutes. The numbers have the order of the measures of the
-- kind, in the code; those of an earlier version may be fewer.
CREATE TABLE metric_sample(
  series_id integer NOT NULL REFERENCES metric_series(series_id) ON DELETE CASCADE,
  minutes integer NOT NULL CHECK (minutes > 0),
  at timestamptz NOT NULL CHECK (at = date_bin(minutes * interval '1 minute', at, 'epoch')),
  numbers real[] NOT NULL,
  PRIMARY KEY(series_id, minutes, at));
CREATE INDEX metric_sample_at ON metric_sample(minutes, at);

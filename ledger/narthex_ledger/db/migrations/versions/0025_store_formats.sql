-- The version of the format in which each kind of store is written. A kind without a row has the first
-- version: earlier releases recorded none. A release that knows only lower versions refuses to start.
CREATE TABLE store_format(
  kind text PRIMARY KEY CHECK (kind ~ '^[a-z][a-z_]{0,38}$'),
  version integer NOT NULL CHECK (version >= 1),
  recorded_at timestamptz NOT NULL DEFAULT ledger_now());

-- An append of a call is written down before it is made: `appending_until` says how long it may
-- still take effect, `from_offset` from where in the log it can be found.
CREATE TABLE webhook_call(
  topic text NOT NULL,
  key text NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 200),
  digest bytea NOT NULL CHECK (octet_length(digest)=32),
  from_offset bigint NOT NULL,
  appending_until timestamptz NOT NULL,
  at_partition int,
  at_offset bigint,
  called_at timestamptz NOT NULL DEFAULT ledger_now(),
  PRIMARY KEY(topic, key),
  CHECK ((at_offset IS NULL) = (at_partition IS NULL)));
CREATE INDEX webhook_call_age ON webhook_call(called_at);

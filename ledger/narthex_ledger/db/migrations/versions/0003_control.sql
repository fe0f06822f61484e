ALTER TABLE api_token
  ADD COLUMN token_id text NOT NULL DEFAULT md5(random()::text || clock_timestamp()::text),
  ADD COLUMN branches text[] NOT NULL DEFAULT '{*}',
  ADD COLUMN created_by text NOT NULL DEFAULT 'platform',
  ADD COLUMN created_at timestamptz NOT NULL DEFAULT ledger_now(),
  ADD COLUMN last_used_at timestamptz,
  ADD COLUMN revoked_at timestamptz;
CREATE UNIQUE INDEX api_token_id ON api_token(token_id);

-- What was asked of the control plane: each row holds the hash of the one before.
CREATE TABLE control_log(
  number bigint PRIMARY KEY CHECK (number >= 1),
  at timestamptz NOT NULL,
  entry jsonb NOT NULL,
  previous_sha256 bytea NOT NULL CHECK (octet_length(previous_sha256)=32),
  sha256 bytea NOT NULL CHECK (octet_length(sha256)=32));
CREATE TRIGGER control_log_append_only BEFORE UPDATE OR DELETE ON control_log
  FOR EACH ROW EXECUTE FUNCTION refuse_change();
-- Where the chain ends; whoever appends locks it, so that the chain has no forks.
CREATE TABLE control_log_tip(
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  number bigint NOT NULL,
  sha256 bytea NOT NULL CHECK (octet_length(sha256)=32));
INSERT INTO control_log_tip(number, sha256) VALUES (0, decode(repeat('00', 32), 'hex'));

-- Values are sealed before they come here; what opens them is outside the database.
CREATE TABLE secret(
  tenant_id bigint NOT NULL REFERENCES tenant,
  name text NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 200),
  version bigint NOT NULL CHECK (version >= 1),
  sealed jsonb NOT NULL,
  changed_by text NOT NULL,
  changed_at timestamptz NOT NULL DEFAULT ledger_now(),
  PRIMARY KEY(tenant_id, name));

-- An erasure removes the rows of some keys from a dataset, and from all that is derived from them.
CREATE TABLE erasure(
  erasure_id uuid PRIMARY KEY,
  tenant_id bigint NOT NULL REFERENCES tenant,
  branch text NOT NULL,
  dataset text NOT NULL,
  fields text[] NOT NULL CHECK (cardinality(fields) > 0),
  actor text NOT NULL,
  request_sha256 bytea NOT NULL CHECK (octet_length(request_sha256)=32),
  state text NOT NULL CHECK (state IN ('requested','rebuilding','holding','releasing','removing','certified')),
  -- The values of the keys, sealed with a key outside the database, until the certificate exists.
  sealed jsonb,
  digests bytea[] NOT NULL CHECK (cardinality(digests) > 0),
  waits_for text NOT NULL DEFAULT '',
  certificate jsonb,
  signature bytea,
  owner text,
  lease_expires_at timestamptz,
  requested_at timestamptz NOT NULL DEFAULT ledger_now(),
  finished_at timestamptz,
  CHECK ((state = 'certified') = (finished_at IS NOT NULL)),
  CHECK ((state = 'certified') = (certificate IS NOT NULL)),
  CHECK ((state = 'certified') = (sealed IS NULL)));
CREATE INDEX erasure_todo ON erasure(requested_at) WHERE state <> 'certified';
-- Keys whose rows are never stored again, as digests: the values can't be read from them.
CREATE TABLE blocked_key(
  tenant_id bigint NOT NULL REFERENCES tenant,
  dataset text NOT NULL,
  digest bytea NOT NULL CHECK (octet_length(digest)=32),
  erasure_id uuid NOT NULL REFERENCES erasure,
  PRIMARY KEY(tenant_id, dataset, digest));
-- How a row of an endpoint becomes a row of a dataset with blocked keys, on any branch.
CREATE TABLE blocked_source(
  tenant_id bigint NOT NULL REFERENCES tenant,
  endpoint text NOT NULL,
  dataset text NOT NULL,
  sha256 bytea NOT NULL CHECK (octet_length(sha256)=32),
  form jsonb NOT NULL,
  PRIMARY KEY(tenant_id, endpoint, dataset, sha256));
-- An obsolete asset has rows that are being erased: readers read it until its successor is filled,
-- and no later plan shares it.
ALTER TABLE asset ADD COLUMN obsolete_by uuid REFERENCES erasure;
-- The obsolete ingest topic whose remaining records this one has.
ALTER TABLE asset ADD COLUMN filled_from bigint REFERENCES asset;
CREATE INDEX asset_obsolete ON asset(obsolete_by) WHERE obsolete_by IS NOT NULL;
DROP INDEX asset_bank;
CREATE UNIQUE INDEX asset_bank ON asset(tenant_id,kind,fp_version,fingerprint)
  WHERE state IN ('planned','creating','live','retiring','quarantined') AND obsolete_by IS NULL;
ALTER TABLE deploy_commit DROP CONSTRAINT deploy_commit_kind_check;
ALTER TABLE deploy_commit ADD CONSTRAINT deploy_commit_kind_check CHECK (kind IN
  ('deploy','init_branch','clone','rollback','delete_branch','undelete_branch','erase'));

CREATE FUNCTION guard_erasure() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.state <> NEW.state AND (OLD.state, NEW.state) NOT IN (VALUES
    ('requested','rebuilding'), ('rebuilding','holding'), ('holding','releasing'),
    ('releasing','removing'), ('removing','certified'))
  THEN
    RAISE EXCEPTION 'erasure % may not go from % to %', OLD.erasure_id, OLD.state, NEW.state
      USING ERRCODE = 'check_violation';
  END IF;
  IF OLD.state = 'certified' THEN
    RAISE EXCEPTION 'erasure % is certified', OLD.erasure_id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER erasure_states BEFORE UPDATE ON erasure FOR EACH ROW EXECUTE FUNCTION guard_erasure();
-- A blocked key stays blocked.
CREATE TRIGGER blocked_key_stays BEFORE UPDATE OR DELETE ON blocked_key FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- Once obsolete, an asset is never shared again.
CREATE FUNCTION guard_obsolete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.obsolete_by IS NOT NULL AND (NEW.obsolete_by IS DISTINCT FROM OLD.obsolete_by
     OR (OLD.state = 'retiring' AND NEW.state = 'live'))
  THEN
    RAISE EXCEPTION 'asset % is obsolete', OLD.asset_id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER asset_obsolete BEFORE UPDATE ON asset FOR EACH ROW EXECUTE FUNCTION guard_obsolete();

-- The present, for every decision of the ledger. A test may shift it for its own sessions.
CREATE FUNCTION ledger_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
  SELECT clock_timestamp()
       + coalesce(nullif(current_setting('narthex.clock_shift', true), ''), '0')::interval
$$;

CREATE TABLE install(
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  install_id text NOT NULL CHECK (install_id ~ '^[a-z0-9]{8}$'),
  timeline bigint NOT NULL DEFAULT 1);
CREATE TABLE registry_version(
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  version bigint NOT NULL DEFAULT 0);
INSERT INTO registry_version DEFAULT VALUES;
CREATE TABLE tenant(
  tenant_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  slug text NOT NULL UNIQUE CHECK (slug ~ '^[a-z][a-z0-9-]{0,38}$'));
CREATE TABLE branch(
  branch_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id bigint NOT NULL REFERENCES tenant,
  name text NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 200 AND name !~ '[[:cntrl:]]'),
  is_main boolean NOT NULL DEFAULT false,
  state text NOT NULL DEFAULT 'active' CHECK (state IN ('active','deleted')),
  head_commit_id uuid,
  serving_commit_id uuid,
  head_seq bigint NOT NULL DEFAULT 0,
  serving_seq bigint NOT NULL DEFAULT 0,
  deleted_at timestamptz,
  CHECK (serving_seq <= head_seq),
  CHECK (NOT (is_main AND state='deleted')),
  CHECK ((state='deleted') = (deleted_at IS NOT NULL)));
CREATE UNIQUE INDEX branch_live_name ON branch(tenant_id,name) WHERE state='active';
CREATE UNIQUE INDEX branch_one_main ON branch(tenant_id) WHERE is_main;
CREATE TABLE bundle(
  sha256 bytea PRIMARY KEY CHECK (octet_length(sha256)=32),
  content bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT ledger_now());
CREATE TABLE manifest(
  manifest_id uuid PRIMARY KEY,
  tenant_id bigint NOT NULL REFERENCES tenant,
  content_sha256 bytea NOT NULL CHECK (octet_length(content_sha256)=32),
  bundle_sha256 bytea NOT NULL REFERENCES bundle CHECK (octet_length(bundle_sha256)=32),
  content jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT ledger_now());
CREATE TABLE deploy_commit(
  commit_id uuid PRIMARY KEY,
  tenant_id bigint NOT NULL REFERENCES tenant,
  branch_id bigint NOT NULL REFERENCES branch,
  kind text NOT NULL CHECK (kind IN ('deploy','clone','rollback','delete_branch','undelete_branch')),
  idempotency_key text NOT NULL CHECK (octet_length(idempotency_key) BETWEEN 8 AND 200),
  request_sha256 bytea NOT NULL CHECK (octet_length(request_sha256)=32),
  bundle_sha256 bytea NOT NULL REFERENCES bundle,
  request jsonb,
  actor text NOT NULL,
  message text NOT NULL DEFAULT '',
  base_seq bigint NOT NULL,
  base_pinned boolean NOT NULL,
  backfill_policy text NOT NULL CHECK (backfill_policy IN ('allowed','refused')),
  promotion_policy text NOT NULL CHECK (promotion_policy IN ('when_ready','now','manual')),
  parent_commit_id uuid REFERENCES deploy_commit,
  manifest_id uuid REFERENCES manifest,
  plan jsonb,
  plan_sha256 bytea,
  expected_plan_sha256 bytea,
  state text NOT NULL CHECK (state IN ('QUEUED','PLANNED','APPLYING','READY','COMMITTED','FINALIZED','ABORTING','ABORTED','REJECTED')),
  fence bigint NOT NULL DEFAULT 0,
  owner text,
  lease_expires_at timestamptz,
  deadline timestamptz NOT NULL,
  cancel_requested_at timestamptz,
  seq bigint,
  commit_xid xid8,
  error jsonb,
  accepted_at timestamptz NOT NULL DEFAULT ledger_now(),
  committed_at timestamptz,
  finished_at timestamptz,
  UNIQUE (tenant_id, idempotency_key),
  CHECK ((state IN ('COMMITTED','FINALIZED')) = (committed_at IS NOT NULL)),
  CHECK ((seq IS NOT NULL) = (committed_at IS NOT NULL)),
  CHECK (state IN ('QUEUED','REJECTED') OR plan_sha256 IS NOT NULL));
CREATE UNIQUE INDEX commit_one_inflight ON deploy_commit(branch_id) WHERE state IN ('PLANNED','APPLYING','READY');
CREATE UNIQUE INDEX commit_branch_seq ON deploy_commit(branch_id, seq) WHERE seq IS NOT NULL;
CREATE INDEX commit_reap ON deploy_commit(lease_expires_at) WHERE state IN ('QUEUED','PLANNED','APPLYING','READY','COMMITTED','ABORTING');
ALTER TABLE branch ADD FOREIGN KEY (head_commit_id) REFERENCES deploy_commit;
ALTER TABLE branch ADD FOREIGN KEY (serving_commit_id) REFERENCES deploy_commit;
CREATE TABLE asset(
  asset_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id bigint NOT NULL REFERENCES tenant,
  kind text NOT NULL CHECK (kind IN ('kafka_topic','index','history','checkpoint','stream_job','index_feed','history_feed','sink_fence')),
  fp_version smallint NOT NULL,
  fingerprint bytea NOT NULL CHECK (octet_length(fingerprint)=32),
  incarnation int NOT NULL CHECK (incarnation>=1),
  physical_name text NOT NULL UNIQUE CHECK (physical_name ~ '^[a-z][a-z0-9_]{0,62}$'),
  spec jsonb NOT NULL,
  spec_sha256 bytea NOT NULL CHECK (octet_length(spec_sha256)=32),
  state text NOT NULL CHECK (state IN ('planned','creating','live','retiring','destroying','destroyed','quarantined')),
  external_id text,
  live_at timestamptz,
  retiring_at timestamptz,
  destroyed_at timestamptz,
  UNIQUE (tenant_id,kind,fp_version,fingerprint,incarnation),
  CHECK (state NOT IN ('live','retiring') OR external_id IS NOT NULL),
  CHECK ((state='destroyed') = (destroyed_at IS NOT NULL)));
CREATE UNIQUE INDEX asset_bank ON asset(tenant_id,kind,fp_version,fingerprint) WHERE state IN ('planned','creating','live','retiring','quarantined');
CREATE INDEX asset_todo ON asset(state) WHERE state IN ('planned','creating','retiring','destroying','quarantined');
CREATE TABLE asset_dep(
  asset_id bigint NOT NULL REFERENCES asset,
  needs_asset_id bigint NOT NULL REFERENCES asset,
  role text NOT NULL,
  PRIMARY KEY(asset_id,needs_asset_id,role),
  CHECK (asset_id<>needs_asset_id));
CREATE INDEX asset_dep_rev ON asset_dep(needs_asset_id);
CREATE TABLE manifest_binding(
  manifest_id uuid NOT NULL REFERENCES manifest,
  logical_path text NOT NULL,
  asset_id bigint NOT NULL REFERENCES asset,
  PRIMARY KEY(manifest_id,logical_path));
CREATE INDEX manifest_binding_asset ON manifest_binding(asset_id, manifest_id);
CREATE TABLE pin(
  pin_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  manifest_id uuid NOT NULL REFERENCES manifest,
  branch_id bigint NOT NULL REFERENCES branch,
  holder text NOT NULL CHECK (holder IN ('inflight','head','serving','history','undelete','hold')),
  commit_id uuid NOT NULL REFERENCES deploy_commit,
  expires_at timestamptz,
  hot boolean NOT NULL DEFAULT true,
  hot_until timestamptz,
  CHECK ((expires_at IS NOT NULL) = (holder IN ('history','undelete'))));
CREATE UNIQUE INDEX pin_one_head ON pin(branch_id) WHERE holder='head';
CREATE UNIQUE INDEX pin_one_serving ON pin(branch_id) WHERE holder='serving';
CREATE UNIQUE INDEX pin_one_inflight ON pin(commit_id) WHERE holder='inflight';
CREATE INDEX pin_manifest ON pin(manifest_id);
CREATE INDEX pin_expiry ON pin(expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE create_ledger(
  asset_id bigint PRIMARY KEY REFERENCES asset,
  introduced_by uuid NOT NULL REFERENCES deploy_commit,
  owner_commit_id uuid NOT NULL REFERENCES deploy_commit,
  status text NOT NULL CHECK (status IN ('RESERVED','INTENT','DONE','UNDONE')),
  needs_backfill boolean NOT NULL DEFAULT false,
  attempt int NOT NULL DEFAULT 0,
  fence bigint NOT NULL DEFAULT 0,
  last_call_deadline timestamptz,
  external_id text,
  last_error jsonb,
  intent_at timestamptz,
  done_at timestamptz,
  CHECK (status='RESERVED' OR intent_at IS NOT NULL OR status='UNDONE'),
  CHECK ((status='DONE') <= (external_id IS NOT NULL)));
CREATE INDEX create_ledger_owner ON create_ledger(owner_commit_id);
CREATE INDEX create_ledger_introduced ON create_ledger(introduced_by);
CREATE TABLE destroy_ledger(
  asset_id bigint PRIMARY KEY REFERENCES asset,
  reason text NOT NULL CHECK (reason IN ('abort','unreferenced','branch_delete','orphan')),
  cause_commit_id uuid REFERENCES deploy_commit,
  not_before timestamptz NOT NULL,
  status text NOT NULL CHECK (status IN ('SCHEDULED','INTENT','DONE','CANCELLED')),
  attempt int NOT NULL DEFAULT 0,
  fence bigint NOT NULL DEFAULT 0,
  owner text,
  lease_expires_at timestamptz,
  last_call_deadline timestamptz,
  last_error jsonb,
  intent_at timestamptz,
  done_at timestamptz);
CREATE INDEX destroy_due ON destroy_ledger(not_before) WHERE status IN ('SCHEDULED','INTENT');
CREATE TABLE ledger_event(
  event_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT ledger_now(),
  commit_id uuid,
  asset_id bigint,
  actor text NOT NULL,
  fence bigint,
  transition text NOT NULL,
  detail jsonb NOT NULL DEFAULT '{}');
CREATE INDEX ledger_event_commit ON ledger_event(commit_id, event_id);
CREATE TABLE job(
  asset_id bigint PRIMARY KEY REFERENCES asset,
  tenant_id bigint NOT NULL REFERENCES tenant,
  slot_space text NOT NULL,
  shard_count int NOT NULL CHECK (shard_count BETWEEN 1 AND 1024),
  desired text NOT NULL CHECK (desired IN ('running','paused','stopped')),
  desired_at timestamptz NOT NULL DEFAULT ledger_now(),
  generation bigint NOT NULL DEFAULT 1,
  spec_sha256 bytea NOT NULL,
  checkpoint_incarnation int NOT NULL DEFAULT 1,
  needs_backfill boolean NOT NULL DEFAULT false,
  backfilled_at timestamptz,
  backfill_owner text,
  backfill_epoch bigint NOT NULL DEFAULT 0,
  backfill_expires_at timestamptz,
  CHECK (desired <> 'running' OR backfill_owner IS NULL));
CREATE TABLE slot_lease(
  slot_space text NOT NULL,
  slot int NOT NULL,
  owner text,
  epoch bigint NOT NULL DEFAULT 0,
  expires_at timestamptz NOT NULL DEFAULT '-infinity',
  PRIMARY KEY(slot_space,slot));
CREATE TABLE job_shard(
  asset_id bigint NOT NULL REFERENCES job,
  shard int NOT NULL,
  slot_space text NOT NULL,
  slot int NOT NULL,
  seen_generation bigint NOT NULL DEFAULT 0,
  seen_epoch bigint NOT NULL DEFAULT 0,
  phase text NOT NULL DEFAULT 'pending' CHECK (phase IN ('pending','starting','running','caught_up','paused','stopped','failed')),
  caught_up_reports int NOT NULL DEFAULT 0,
  lag_ms bigint,
  progress jsonb,
  backfill jsonb,
  reported_at timestamptz,
  PRIMARY KEY(asset_id,shard),
  FOREIGN KEY(slot_space,slot) REFERENCES slot_lease);
CREATE TABLE sink_progress(
  job_key text NOT NULL,
  shard int NOT NULL,
  epoch bigint NOT NULL,
  checkpoint_incarnation int NOT NULL,
  batch_id bigint NOT NULL DEFAULT -1,
  PRIMARY KEY(job_key,shard));
CREATE TABLE promotion(
  commit_id uuid PRIMARY KEY REFERENCES deploy_commit,
  branch_id bigint NOT NULL REFERENCES branch,
  policy text NOT NULL CHECK (policy IN ('when_ready','now','manual')),
  state text NOT NULL CHECK (state IN ('PENDING','DONE','SUPERSEDED')),
  approved_by text,
  evidence jsonb,
  decided_at timestamptz);
CREATE TABLE external_inventory(
  system text NOT NULL,
  physical_name text NOT NULL,
  external_id text NOT NULL,
  class text NOT NULL CHECK (class IN ('A','B','C','D','E')),
  first_seen timestamptz NOT NULL,
  last_seen timestamptz NOT NULL,
  scans int NOT NULL DEFAULT 1,
  PRIMARY KEY(system,physical_name,external_id));
CREATE TABLE engine(
  engine_id text PRIMARY KEY,
  slot_space text NOT NULL,
  weight double precision NOT NULL DEFAULT 1 CHECK (weight > 0),
  info jsonb,
  seen_at timestamptz NOT NULL);
CREATE TABLE api_token(
  token_sha256 bytea PRIMARY KEY CHECK (octet_length(token_sha256)=32),
  name text NOT NULL,
  scopes text[] NOT NULL,
  expires_at timestamptz);
CREATE TABLE offline_query(
  request_id uuid PRIMARY KEY,
  state text NOT NULL CHECK (state IN ('queued','running','done','failed','cancelled')),
  manifest_id uuid NOT NULL REFERENCES manifest,
  pin_id bigint,
  actor text NOT NULL,
  request jsonb NOT NULL,
  progress jsonb,
  result jsonb,
  error jsonb,
  owner text,
  epoch bigint NOT NULL DEFAULT 0,
  lease_expires_at timestamptz,
  submitted_at timestamptz NOT NULL DEFAULT ledger_now(),
  finished_at timestamptz,
  CHECK ((state IN ('done','failed','cancelled')) = (finished_at IS NOT NULL)));
CREATE INDEX offline_todo ON offline_query(submitted_at) WHERE state IN ('queued','running');
CREATE TABLE audit(
  audit_id uuid PRIMARY KEY,
  dataset text NOT NULL,
  from_us bigint,
  to_us bigint,
  result jsonb NOT NULL,
  success boolean NOT NULL,
  at timestamptz NOT NULL DEFAULT ledger_now());
CREATE INDEX audit_dataset ON audit(dataset, at);
CREATE VIEW asset_refcount AS
  SELECT a.asset_id, count(p.pin_id) AS refs
    FROM asset a
    LEFT JOIN (SELECT DISTINCT manifest_id, asset_id FROM manifest_binding) b USING(asset_id)
    LEFT JOIN pin p USING(manifest_id)
   GROUP BY 1;

CREATE FUNCTION guard_asset() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.state <> NEW.state AND (OLD.state, NEW.state) NOT IN (VALUES
    ('planned','creating'), ('planned','destroyed'),
    ('creating','live'), ('creating','destroying'), ('creating','quarantined'),
    ('live','retiring'), ('live','quarantined'),
    ('retiring','live'), ('retiring','destroying'), ('retiring','quarantined'),
    ('quarantined','destroying'), ('destroying','destroyed'))
  THEN
    RAISE EXCEPTION 'asset % may not go from % to %', OLD.asset_id, OLD.state, NEW.state
      USING ERRCODE = 'check_violation';
  END IF;
  IF (OLD.tenant_id, OLD.kind, OLD.fp_version, OLD.fingerprint, OLD.incarnation, OLD.physical_name, OLD.spec)
     IS DISTINCT FROM
     (NEW.tenant_id, NEW.kind, NEW.fp_version, NEW.fingerprint, NEW.incarnation, NEW.physical_name, NEW.spec)
  THEN
    RAISE EXCEPTION 'asset % is immutable', OLD.asset_id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER asset_states BEFORE UPDATE ON asset FOR EACH ROW EXECUTE FUNCTION guard_asset();

CREATE FUNCTION guard_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.state <> NEW.state AND (OLD.state, NEW.state) NOT IN (VALUES
    ('QUEUED','PLANNED'), ('QUEUED','REJECTED'),
    ('PLANNED','APPLYING'), ('PLANNED','ABORTING'),
    ('APPLYING','READY'), ('APPLYING','ABORTING'),
    ('READY','COMMITTED'), ('READY','ABORTING'),
    ('COMMITTED','FINALIZED'), ('ABORTING','ABORTED'))
  THEN
    RAISE EXCEPTION 'commit % may not go from % to %', OLD.commit_id, OLD.state, NEW.state
      USING ERRCODE = 'check_violation';
  END IF;
  IF NEW.fence < OLD.fence THEN
    RAISE EXCEPTION 'the fence of commit % may only grow', OLD.commit_id
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER commit_states BEFORE UPDATE ON deploy_commit FOR EACH ROW EXECUTE FUNCTION guard_commit();

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'rows of % are never changed', TG_TABLE_NAME USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER ledger_event_append_only BEFORE UPDATE OR DELETE ON ledger_event FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER bundle_immutable BEFORE UPDATE ON bundle FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- An old manifest may go once nothing pins it and the collector says so in its own transaction.
CREATE FUNCTION guard_manifest() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND current_setting('narthex.collecting', true) = 'on'
     AND NOT EXISTS (SELECT 1 FROM pin WHERE pin.manifest_id = OLD.manifest_id)
  THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION 'manifest % is immutable', OLD.manifest_id USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER manifest_immutable BEFORE UPDATE OR DELETE ON manifest FOR EACH ROW EXECUTE FUNCTION guard_manifest();
CREATE TRIGGER binding_immutable BEFORE UPDATE OR DELETE ON manifest_binding FOR EACH ROW EXECUTE FUNCTION guard_manifest();

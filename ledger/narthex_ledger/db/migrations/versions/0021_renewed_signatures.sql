-- A bundle that was signed by another key before has its signature here; its content keeps the first one.
ALTER TABLE bundle ADD COLUMN signature bytea;

-- The rotation of the signing key replaces signatures, and nothing else, of rows that are never changed.
CREATE FUNCTION renews_signature(before jsonb, after jsonb) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT current_setting('narthex.signing', true) = 'on'
     AND before - 'signature' = after - 'signature' AND (after->>'signature') IS NOT NULL
$$;
CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND renews_signature(to_jsonb(OLD), to_jsonb(NEW)) THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION 'rows of % are never changed', TG_TABLE_NAME USING ERRCODE = 'check_violation';
END $$;
CREATE OR REPLACE FUNCTION guard_manifest() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND current_setting('narthex.collecting', true) = 'on'
     AND NOT EXISTS (SELECT 1 FROM pin WHERE pin.manifest_id = OLD.manifest_id)
  THEN
    RETURN OLD;
  END IF;
  IF TG_OP = 'UPDATE' AND renews_signature(to_jsonb(OLD), to_jsonb(NEW)) THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION 'manifest % is immutable', OLD.manifest_id USING ERRCODE = 'check_violation';
END $$;
CREATE OR REPLACE FUNCTION guard_erasure() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.state <> NEW.state AND (OLD.state, NEW.state) NOT IN (VALUES
    ('requested','rebuilding'), ('rebuilding','holding'), ('holding','releasing'),
    ('releasing','removing'), ('removing','certified'))
  THEN
    RAISE EXCEPTION 'erasure % may not go from % to %', OLD.erasure_id, OLD.state, NEW.state
      USING ERRCODE = 'check_violation';
  END IF;
  IF OLD.state = 'certified' AND NOT renews_signature(to_jsonb(OLD), to_jsonb(NEW)) THEN
    RAISE EXCEPTION 'erasure % is certified', OLD.erasure_id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;

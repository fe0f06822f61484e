-- The targets that an erasure leaves as they are, and what was seen of the deletions in the others.
ALTER TABLE erasure
  ADD COLUMN leave_sinks text[] NOT NULL DEFAULT '{}',
  ADD COLUMN sinks jsonb,
  DROP CONSTRAINT erasure_state_check,
  ADD CONSTRAINT erasure_state_check CHECK (state IN
    ('requested','rebuilding','holding','withdrawing','releasing','removing','certified'));
-- A server of the version before goes from holding to releasing.
CREATE OR REPLACE FUNCTION guard_erasure() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.state <> NEW.state AND (OLD.state, NEW.state) NOT IN (VALUES
    ('requested','rebuilding'), ('rebuilding','holding'), ('holding','withdrawing'),
    ('holding','releasing'), ('withdrawing','releasing'), ('releasing','removing'),
    ('removing','certified'))
  THEN
    RAISE EXCEPTION 'erasure % may not go from % to %', OLD.erasure_id, OLD.state, NEW.state
      USING ERRCODE = 'check_violation';
  END IF;
  IF OLD.state = 'certified' AND NOT renews_signature(to_jsonb(OLD), to_jsonb(NEW)) THEN
    RAISE EXCEPTION 'erasure % is certified', OLD.erasure_id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;

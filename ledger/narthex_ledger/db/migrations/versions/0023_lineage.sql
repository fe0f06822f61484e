-- The server that sends lineage, and how far it is. An event may become visible after one with a
-- greater number, so the numbers that were missing are looked for again for a while.
CREATE TABLE lineage_sender(
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  owner text,
  expires_at timestamptz,
  sent_to bigint NOT NULL DEFAULT 0,
  missing jsonb NOT NULL DEFAULT '{}',
  backfills jsonb NOT NULL DEFAULT '{}',
  failures integer NOT NULL DEFAULT 0,
  error text NOT NULL DEFAULT '');
INSERT INTO lineage_sender(one) VALUES (true);

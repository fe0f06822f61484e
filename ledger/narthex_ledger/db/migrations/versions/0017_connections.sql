-- Connections by name. The kind, the parameters and the branches are sealed together.
CREATE TABLE connection(
  tenant_id bigint NOT NULL REFERENCES tenant,
  name text NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 128),
  version bigint NOT NULL CHECK (version >= 1),
  sealed jsonb NOT NULL,
  changed_by text NOT NULL,
  changed_at timestamptz NOT NULL DEFAULT ledger_now(),
  PRIMARY KEY(tenant_id, name));

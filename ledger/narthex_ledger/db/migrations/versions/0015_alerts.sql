-- The alerts that fire now. An alert about the installation as a whole has an empty branch.
CREATE TABLE alert(
  rule text NOT NULL,
  branch text NOT NULL,
  subject text NOT NULL,
  severity text NOT NULL CHECK (severity IN ('critical', 'warning', 'info')),
  summary text NOT NULL,
  remedy text NOT NULL,
  page text NOT NULL,
  started_at timestamptz NOT NULL DEFAULT ledger_now(),
  PRIMARY KEY(rule, branch, subject));
-- Findings of other processes than the server, such as Airflow's tasks; each ends by itself.
CREATE TABLE alert_finding(
  rule text NOT NULL,
  branch text NOT NULL,
  subject text NOT NULL,
  severity text NOT NULL CHECK (severity IN ('critical', 'warning', 'info')),
  summary text NOT NULL,
  remedy text NOT NULL,
  page text NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY(rule, branch, subject));
-- Patterns of alerts that are not sent for a while.
CREATE TABLE alert_silence(
  silence_id uuid PRIMARY KEY,
  rule text NOT NULL,
  branch text NOT NULL,
  subject text NOT NULL,
  reason text NOT NULL,
  created_by text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT ledger_now(),
  until timestamptz NOT NULL);
-- The alerts of one rule and branch as one receiver knows them, and the message that it has not
-- got yet. A later message replaces an earlier one and contains what it had.
CREATE TABLE alert_notice(
  receiver text NOT NULL,
  rule text NOT NULL,
  branch text NOT NULL,
  announced jsonb NOT NULL,
  announced_at timestamptz,
  message_id uuid,
  message jsonb,
  attempts integer NOT NULL DEFAULT 0,
  next_attempt_at timestamptz,
  error text NOT NULL DEFAULT '',
  delivered_at timestamptz,
  PRIMARY KEY(receiver, rule, branch),
  CHECK ((message IS NULL) = (message_id IS NULL)),
  CHECK ((message IS NULL) = (next_attempt_at IS NULL)));
-- The server that evaluates the rules, and what it remembers from one evaluation to the next.
CREATE TABLE alert_evaluator(
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  owner text,
  expires_at timestamptz,
  memory jsonb);
INSERT INTO alert_evaluator(one) VALUES (true);
CREATE INDEX audit_newest ON audit(at) WHERE commit_id IS NULL;

-- When a query began, later by the time in which no engine ran it: the time that it has run is that
-- from here until now. The token whose newest query began first is served next, and of its branches
-- that whose newest query began first.
ALTER TABLE offline_query ADD COLUMN started_at timestamptz;
CREATE INDEX offline_turns ON offline_query((request->>'branch'), started_at);
CREATE INDEX offline_turns_of_tokens ON offline_query(actor, started_at);
UPDATE offline_query SET started_at = ledger_now() WHERE state = 'running';

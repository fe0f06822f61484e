-- When a query began, later by the time in which no engine ran it: the time that it has run is that
-- from here until now. The branch whose newest query began first is served next.
ALTER TABLE offline_query ADD COLUMN started_at timestamptz;
CREATE INDEX offline_turns ON offline_query((request->>'branch'), started_at);
UPDATE offline_query SET started_at = ledger_now() WHERE state = 'running';

-- Which tags a token is for, by patterns as its branches are; without any it sees only what has none.
ALTER TABLE api_token ADD COLUMN tags text[] NOT NULL DEFAULT '{*}';

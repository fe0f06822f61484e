-- A writer of these rows without the installation's key grants no right, queues no query and moves no branch:
-- a token is signed with its rights, an offline query with its request, and a commit, when it becomes the head
-- of a branch, with that branch's name.
ALTER TABLE api_token ADD COLUMN signature bytea;
ALTER TABLE offline_query ADD COLUMN signature bytea;
ALTER TABLE deploy_commit ADD COLUMN head_signature bytea;
-- Each entry's hash is signed, so that only the server can extend or rewrite the chain.
ALTER TABLE control_log ADD COLUMN signature bytea;

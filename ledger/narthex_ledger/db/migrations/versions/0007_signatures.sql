-- Who can write these rows, and has not the key of the installation, changes nothing that is believed:
-- a commit is signed with its bundle, an asset with its spec and name.
ALTER TABLE deploy_commit ADD COLUMN signature bytea;
ALTER TABLE asset ADD COLUMN signature bytea;

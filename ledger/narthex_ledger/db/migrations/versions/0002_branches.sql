ALTER TABLE deploy_commit DROP CONSTRAINT deploy_commit_kind_check;
ALTER TABLE deploy_commit ADD CONSTRAINT deploy_commit_kind_check CHECK (kind IN
  ('deploy','init_branch','clone','rollback','delete_branch','undelete_branch'));

-- Who let readers flip, and when; the first approval stands.
ALTER TABLE promotion ADD COLUMN approved_at timestamptz;
UPDATE promotion SET approved_at = decided_at WHERE approved_by IS NOT NULL;

-- A person approves each promotion of a protected branch.
ALTER TABLE branch ADD COLUMN is_protected boolean NOT NULL DEFAULT false;

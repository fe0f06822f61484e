-- Datasets of several branches may have one name, and not everybody may read of all branches.
-- What was audited before is of no known branch.
ALTER TABLE audit ADD COLUMN branch text NOT NULL DEFAULT '';

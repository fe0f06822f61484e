-- Nor can who writes these rows join what was signed alone otherwise: which assets one needs, and in which
-- role, is signed with it; what a manifest says, and which assets it binds to its paths, with the manifest.
ALTER TABLE asset ADD COLUMN needs_signature bytea;
ALTER TABLE manifest ADD COLUMN signature bytea;

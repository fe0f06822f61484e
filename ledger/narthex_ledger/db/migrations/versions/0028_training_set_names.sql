-- A name that is taken by a set which a caller does not see must look free to it. So two sets of a
-- branch may have one name; the server stores none beside another that the caller sees.
ALTER TABLE training_set DROP CONSTRAINT training_set_branch_name_key;
ALTER TABLE training_set ADD UNIQUE(branch, name, request_id);

-- A supervisor reads the jobs of its slots that changed after the version that it knows.
ALTER TABLE job ADD COLUMN changed_in bigint NOT NULL DEFAULT 0;
CREATE INDEX job_changed ON job(changed_in);
CREATE INDEX job_shard_slot ON job_shard(slot_space, slot);

-- Up to which event time the rows of a dataset are complete (place ''), and the greatest event time
-- of each partition of its sources. The asset is the dataset's history feed. Values only grow.
CREATE TABLE watermark(
  asset_id bigint NOT NULL REFERENCES job(asset_id) ON DELETE CASCADE,
  place text NOT NULL,
  event_time_us bigint NOT NULL,
  arrived_ms bigint NOT NULL DEFAULT 0,
  PRIMARY KEY(asset_id, place));

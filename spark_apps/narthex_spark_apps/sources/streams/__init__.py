"""Sources that are streams of a cloud: Kinesis and Pub/Sub."""

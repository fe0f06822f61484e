#!/bin/sh
# Run once, by the PostgreSQL image, on an empty data directory.
set -eu
psql --set=ON_ERROR_STOP=1 --username "$POSTGRES_USER" \
  --set=narthex="$NARTHEX_DB_PASSWORD" --set=airflow="$AIRFLOW_DB_PASSWORD" <<'SQL'
CREATE ROLE narthex LOGIN PASSWORD :'narthex';
CREATE DATABASE narthex OWNER narthex;
CREATE ROLE airflow LOGIN PASSWORD :'airflow';
CREATE DATABASE airflow OWNER airflow;
REVOKE ALL ON DATABASE narthex FROM PUBLIC;
REVOKE ALL ON DATABASE airflow FROM PUBLIC;
SQL

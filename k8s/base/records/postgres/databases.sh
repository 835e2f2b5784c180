#!/bin/sh
# Run by the Postgres image once, when its volume is empty: two roles and their databases.
set -eu
psql --username=postgres --set=ON_ERROR_STOP=1 \
  --set=mlflow="$MLFLOW_PASSWORD" --set=searches="$SEARCHES_PASSWORD" <<'SQL'
CREATE ROLE mlflow LOGIN PASSWORD :'mlflow';
CREATE ROLE searches LOGIN PASSWORD :'searches';
CREATE DATABASE mlflow OWNER mlflow;
CREATE DATABASE mlflow_users OWNER mlflow;
CREATE DATABASE searches OWNER searches;
REVOKE ALL ON DATABASE mlflow, mlflow_users, searches FROM PUBLIC;
SQL

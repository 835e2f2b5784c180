#!/bin/sh
# What k8s/base/records/postgres asks of the entry point of Docker's image.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  echo "$POSTGRES_PASSWORD" > /tmp/password
  initdb --locale=C.UTF-8 --username=postgres --pwfile=/tmp/password $POSTGRES_INITDB_ARGS
  rm /tmp/password
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  pg_ctl --wait --options='-c listen_addresses=' start
  for script in /docker-entrypoint-initdb.d/*; do PGPASSWORD=$POSTGRES_PASSWORD "$script"; done
  pg_ctl --wait --mode=fast stop
fi
exec postgres -c listen_addresses='*' "$@"

#!/bin/sh
# Print the Secrets of a deployment, every password fresh from the kernel's random numbers:
#
#   sh k8s/make-secrets.sh | kubectl create -f -
#
# `create`, so that a second run overwrites nothing. Nothing is written to a disk.
#
# Databases of your own (with components/own-postgres) go into the environment: MLFLOW_URL, USERS_URL,
# SEARCHES_URL (SQLAlchemy's form). So does the store's bucket (with components/bucket): STORE_URI, such
# as s3://BUCKET/store?region=REGION, STORE_KEY and STORE_SECRET.
set -eu

random() { od -An -v -N "${1:-24}" -tx1 /dev/urandom | tr -d ' \n'; }

NAMESPACE=${NAMESPACE:-ablate}
postgres=$(random) mlflow_role=$(random) searches_role=$(random)
admin=$(random 12) driver=$(random) reader=$(random 12)

# A pod that is lost answers nothing, and without a limit whoever waits for it waits for minutes.
limits='connect_timeout=5&tcp_user_timeout=10000&keepalives_idle=10&keepalives_interval=5&keepalives_count=2'
MLFLOW_URL=${MLFLOW_URL:-postgresql+psycopg://mlflow:$mlflow_role@postgres:5432/mlflow?$limits}
USERS_URL=${USERS_URL:-postgresql+psycopg://mlflow:$mlflow_role@postgres:5432/mlflow_users?$limits}
SEARCHES_URL=${SEARCHES_URL:-postgresql+psycopg://searches:$searches_role@postgres:5432/searches?$limits}
users_ini=$(printf '%s' "$USERS_URL" | sed 's/%/%%/g')  # configparser's own use of %

secret() {
  printf -- '---\napiVersion: v1\nkind: Secret\ntype: Opaque\nmetadata:\n'
  printf '  name: %s\n  namespace: %s\nstringData:\n' "$1" "$NAMESPACE"
}

entry() { printf "  %s: '%s'\n" "$1" "$(printf '%s' "$2" | sed "s/'/''/g")"; }

secret ablate-ray
entry auth_token "$(random 32)"

secret ablate-postgres
entry POSTGRES_PASSWORD "$postgres"
entry MLFLOW_PASSWORD "$mlflow_role"
entry SEARCHES_PASSWORD "$searches_role"

secret ablate-mlflow
entry MLFLOW_BACKEND_STORE_URI "$MLFLOW_URL"
entry MLFLOW_AUTH_ADMIN_USERNAME admin
entry MLFLOW_AUTH_ADMIN_PASSWORD "$admin"
entry MLFLOW_FLASK_SERVER_SECRET_KEY "$(random 32)"

secret ablate-mlflow-users
cat <<INI
  basic_auth.ini: |
    [mlflow]
    default_permission = READ
    database_uri = $users_ini
    authorization_function = mlflow.server.auth:authenticate_request_basic_auth
    grant_default_workspace_access = false
  logins.json: |
    {"admin": {"password": "$admin", "admin": true},
     "driver": {"password": "$driver", "admin": false},
     "reader": {"password": "$reader", "admin": false}}
INI

# For the people who read: kubectl -n ablate get secret ablate-reader ...
secret ablate-reader
entry username reader
entry password "$reader"

# What the driver holds, and no worker: it writes the records and asks the searches.
secret ablate-driver
entry MLFLOW_TRACKING_URI http://mlflow:5000
entry MLFLOW_TRACKING_USERNAME driver
entry MLFLOW_TRACKING_PASSWORD "$driver"
entry ABLATE_SEARCHES "$SEARCHES_URL"

# For components/bucket: workers hold these too.
[ -z "${STORE_URI:-}" ] && exit
secret ablate-store
entry ABLATE_STORE "$STORE_URI"
entry AWS_ACCESS_KEY_ID "$STORE_KEY"
entry AWS_SECRET_ACCESS_KEY "$STORE_SECRET"

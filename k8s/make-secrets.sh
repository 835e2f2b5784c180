#!/bin/sh
# Print the Secrets of a deployment, every password fresh from the kernel's random numbers:
#
#   sh k8s/make-secrets.sh | kubectl create -f -
#
# `create`, so that a second run overwrites nothing. Nothing is written to a disk.
#
# Databases and a bucket of your own (with components/own-postgres, components/own-s3) go into the
# environment: MLFLOW_URL, USERS_URL, SEARCHES_URL (SQLAlchemy's form); S3_ENDPOINT, S3_BUCKET,
# S3_KEY, S3_SECRET. For components/store-s3: STORE_BUCKET, with a bucket of your own also
# STORE_KEY, STORE_SECRET.
set -eu

random() { od -An -v -N "${1:-24}" -tx1 /dev/urandom | tr -d ' \n'; }

NAMESPACE=${NAMESPACE:-ablate}
postgres=$(random) mlflow_role=$(random) searches_role=$(random)
admin=$(random 12) driver=$(random) reader=$(random 12)
redis=$(random)

MLFLOW_URL=${MLFLOW_URL:-postgresql+psycopg://mlflow:$mlflow_role@postgres:5432/mlflow}
USERS_URL=${USERS_URL:-postgresql+psycopg://mlflow:$mlflow_role@postgres:5432/mlflow_users}
SEARCHES_URL=${SEARCHES_URL:-postgresql+psycopg://searches:$searches_role@postgres:5432/searches}
S3_ENDPOINT=${S3_ENDPOINT:-http://objects:8333}
S3_BUCKET=${S3_BUCKET:-mlflow}
S3_KEY=${S3_KEY:-$(random 10)}
S3_SECRET=${S3_SECRET:-$(random)}
STORE_BUCKET=${STORE_BUCKET:-}
STORE_KEY=${STORE_KEY:-$(random 10)}
STORE_SECRET=${STORE_SECRET:-$(random)}
users_ini=$(printf '%s' "$USERS_URL" | sed 's/%/%%/g')  # configparser's own use of %

secret() {
  printf -- '---\napiVersion: v1\nkind: Secret\ntype: Opaque\nmetadata:\n'
  printf '  name: %s\n  namespace: %s\nstringData:\n' "$1" "$NAMESPACE"
}

entry() { printf "  %s: '%s'\n" "$1" "$(printf '%s' "$2" | sed "s/'/''/g")"; }

secret ablate-ray
entry auth_token "$(random 32)"

secret ablate-redis
entry password "$redis"
entry password.conf "requirepass $redis"

secret ablate-postgres
entry postgres-password "$postgres"
entry mlflow-password "$mlflow_role"
entry searches-password "$searches_role"

secret ablate-objects
cat <<JSON
  s3.json: |
    {"identities": [
      {"name": "mlflow", "credentials": [{"accessKey": "$S3_KEY", "secretKey": "$S3_SECRET"}],
       "actions": ["Admin:$S3_BUCKET", "Read:$S3_BUCKET", "Write:$S3_BUCKET", "List:$S3_BUCKET"]}
JSON
[ -z "$STORE_BUCKET" ] || cat <<JSON
      , {"name": "store", "credentials": [{"accessKey": "$STORE_KEY", "secretKey": "$STORE_SECRET"}],
       "actions": ["Admin:$STORE_BUCKET", "Read:$STORE_BUCKET", "Write:$STORE_BUCKET",
                   "List:$STORE_BUCKET"]}
JSON
printf '    ]}\n'

secret ablate-mlflow
entry MLFLOW_BACKEND_STORE_URI "$MLFLOW_URL"
entry MLFLOW_AUTH_ADMIN_USERNAME admin
entry MLFLOW_AUTH_ADMIN_PASSWORD "$admin"
entry MLFLOW_FLASK_SERVER_SECRET_KEY "$(random 32)"
entry ARTIFACTS "s3://$S3_BUCKET/artifacts"
entry MLFLOW_S3_ENDPOINT_URL "$S3_ENDPOINT"
entry AWS_ACCESS_KEY_ID "$S3_KEY"
entry AWS_SECRET_ACCESS_KEY "$S3_SECRET"
entry AWS_DEFAULT_REGION "${S3_REGION:-us-east-1}"

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

# For components/store-s3: workers hold these too.
[ -z "$STORE_BUCKET" ] && exit
secret ablate-store
entry ABLATE_STORE \
  "s3://$STORE_BUCKET/store?scheme=${S3_ENDPOINT%%://*}&endpoint_override=${S3_ENDPOINT#*://}&allow_bucket_creation=true"
entry AWS_ACCESS_KEY_ID "$STORE_KEY"
entry AWS_SECRET_ACCESS_KEY "$STORE_SECRET"
entry AWS_DEFAULT_REGION "${S3_REGION:-us-east-1}"

# backup.sh FOLDER: all of Postgres into FOLDER, of which the last seven dumps stay.
set -eu -o pipefail
cd "$1"
rm -f -- *.partial
name="ablate-$(date -u +%Y%m%dT%H%M%SZ).sql.gz"
pg_dumpall | gzip > "$name.partial"
sync "$name.partial"
mv -- "$name.partial" "$name"
ls -1 ablate-*.sql.gz | sort -r | tail -n +8 | xargs -r rm -f --

"""Checks of `ablate doctor` of a Postgres server: access, free connections, free disk space.

A temporary table is filled and rolled back, since only a write fails when the disk is full.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ablate.commands.doctor.finding import FAIL, OK, WARN, Finding

SECONDS = 8
NEEDED = 5  # connections of a driver: those of its searches, and a spare one
COUNT = """
select current_setting('max_connections')::int
  - current_setting('superuser_reserved_connections')::int
  - (select count(*) from pg_stat_activity where backend_type = 'client backend')
"""
FILL = """
create temporary table ablate_doctor on commit drop as
select repeat(md5(number::text), 32) from generate_series(1, 2000) as number
"""
MORE_CONNECTIONS = "Raise its max_connections, or close some; drivers wait until then."
REMEDIES = {
    "too many clients": MORE_CONNECTIONS,
    "connection slots are reserved": MORE_CONNECTIONS,
    "too many connections for": MORE_CONNECTIONS,
    "No space left": "Give its volume more space, or delete what is old; drivers wait until then.",
    "Disk quota": "Give its volume more space, or delete what is old; drivers wait until then.",
    "authentication failed": "Set PGPASSWORD to the password of the user that the URL names.",
    "no password supplied": "Set PGPASSWORD to the password of the user that the URL names.",
    "does not exist": "Make it with CREATE DATABASE, or correct the URL.",
    "permission denied": "Grant the URL's user CONNECT, TEMPORARY and CREATE on it.",
    "read-only": "Name the primary server, not a standby.",
    "no pg_hba.conf entry": "Let this host in, in the server's pg_hba.conf.",
}


def driver() -> Any | None:
    """Return a Python driver for Postgres, if one is installed."""
    return next((import_module(name) for name in ("psycopg", "psycopg2") if find_spec(name)), None)


def postgres(url: str) -> Finding:
    """Query the database at `url`."""
    package = driver()
    scheme, _, rest = url.partition("://")
    plain = f"{scheme.partition('+')[0]}://{rest}"
    try:
        connection = package.connect(plain, connect_timeout=SECONDS)  # type: ignore[union-attr]
        try:
            free = _free_connections(connection)
        finally:
            connection.close()
    except Exception as error:
        last = " ".join(str(error).split())
        remedy = next((text for phrase, text in REMEDIES.items() if phrase in last), None)
        default = "Is the database up, and is this its host?"
        return Finding(FAIL, f"{url}: {last}", remedy or default, 6)
    if free < NEEDED:
        return Finding(WARN, f"{url} answers, and has {free} free connections", MORE_CONNECTIONS)
    return Finding(OK, f"{url} answers, can be written, and has {free} free connections")


def _free_connections(connection: Any) -> int:
    """Return the number of free connections; raise an error if nothing can be written."""
    cursor = connection.cursor()
    cursor.execute(f"set statement_timeout = '{SECONDS}s'")
    cursor.execute(COUNT)
    free = cursor.fetchone()[0]
    cursor.execute(FILL)
    connection.rollback()
    return free

"""Questions in SQL: read alone, answered in four forms, refused in one clear message."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from ablate import cli
from ablate.compare.across import query
from ablate.errors import ConfigError, StillRunning
from ablate.record.mirror.syncing import update_mirror

CONFIG = {
    "head": "mos",
    "head.experts": 15,
    "backbone.units": 20,
    "optimizer.learning_rate": 20.0,
}


@pytest.fixture
def mirror(recorded):
    trials = [recorded.trial(f"t{i}", CONFIG, seed=i, nats=4 + i / 10) for i in range(3)]
    recorded.study("one", {"a|b": trials})
    return update_mirror(recorded.workspace)


REFUSED = (
    "COPY trials TO '{folder}/out.csv'",
    "COPY (SELECT 1) TO '{folder}/out.parquet' (FORMAT parquet)",
    "EXPORT DATABASE '{folder}/out'",
    "ATTACH '{folder}/out.db'",
    "CREATE TABLE x AS SELECT 1",
    "CREATE VIEW trials2 AS SELECT 1",
    "INSERT INTO trials VALUES (1)",
    "DELETE FROM trials",
    "UPDATE trials SET seed = 1",
    "DROP VIEW trials",
    "WITH x AS (DELETE FROM trials RETURNING *) SELECT * FROM x",
    "PRAGMA database_list",
    "SET threads = 1",
    "SET enable_external_access = true",
    "INSTALL httpfs",
    "LOAD httpfs",
    "CALL pragma_version()",
    "SELECT * FROM read_csv('{folder}/secret.csv')",
    "SELECT * FROM read_text('{folder}/secret.csv')",
    "SELECT * FROM '{folder}/secret.csv'",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM sniff_csv('{folder}/secret.csv')",
    "SELECT * FROM read_csv('https://example.org/x.csv')",
    "SELECT * FROM sql",  # a variable of the Python that asks
    "EXPLAIN ANALYZE CREATE TABLE z AS SELECT 1",
    "EXPLAIN CREATE TABLE z AS SELECT 1",
    "EXPLAIN (ANALYZE, FORMAT json) CREATE TABLE z AS SELECT 1",
    "explain(analyze) create table z as select 1",
    "EXPLAIN ANALYZE WITH x AS (SELECT 1) INSERT INTO z SELECT * FROM x",
    "EXPLAIN ANALYZE /* EXPLAIN */ CREATE TABLE z AS SELECT 1",
    "EXPLAIN ANALYZE /* /* */ SELECT 1 -- */ */ CREATE TABLE z AS SELECT 1",
    "EXPLAIN ANALYZE -- EXPLAIN SELECT 1\nCREATE TABLE z AS SELECT 1",
    "-- EXPLAIN SELECT 1\nEXPLAIN ANALYZE CREATE TABLE z AS SELECT 1",
    "EXPLAIN ANALYZE SET threads = 1",
    "EXPLAIN ANALYZE SELECT * FROM read_text('{folder}/secret.csv')",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP VIEW trials",
    "",
    ";",
    "-- nothing",
)


@pytest.mark.slow
def test_nothing_but_reading(mirror, tmp_path):
    path = tmp_path / "elsewhere"
    path.mkdir()
    (path / "secret.csv").write_text("a\n1\n")
    before = {f: f.stat().st_mtime_ns for f in mirror.folder.path.iterdir()}
    for sql in REFUSED:
        with pytest.raises(ConfigError) as refused:
            query.ask(mirror, sql.format(folder=path))
        assert len(str(refused.value).splitlines()) == 1, sql
        assert "Traceback" not in str(refused.value)
        assert [f.name for f in path.iterdir()] == ["secret.csv"], sql
        assert {f: f.stat().st_mtime_ns for f in mirror.folder.path.iterdir()} == before, sql


WRONG = (
    ("SELECT valdi_nll FROM trials", "Did you mean valid_nll?"),
    ("SELECT t.sedd FROM trials t", "Did you mean seed?"),
    ('SELECT "backbone.unit" FROM trials', 'Did you mean "backbone.units"?'),
    ("SELECT head.expert FROM trials", 'Did you mean "head.experts"?'),
    ("SELECT * FROM trials WHERE lr = 1", 'Nearest: "optimizer.learning_rate", '),
    ("SELECT * FROM trials WHERE zzz = 1", '"DESCRIBE trials"` lists the columns of a table'),
    ("SELECT tokens FROM trials", "'tokens' is a column of epochs, and not of"),
    ("SELECT * FROM trails", "Did you mean 'trials'?"),
    ("SELECT * FROM zzzzzzz", "Expected one of: trials, epochs, arms, studies, published."),
    ("SELEC * FROM trials", "syntax error"),
    ("SELECT count( FROM trials", "syntax error"),
    ("COPY trials TO 'x'", "changes nothing"),
    ("SELECT * FROM read_csv('x')", "reads a file or the network"),
)


@pytest.mark.slow
def test_a_wrong_question_gets_one_message_and_a_status(mirror, recorded, capsys):
    locations = ["--workspace", str(recorded.workspace.folder)]
    for sql, message in WRONG:
        assert cli.main(["query", sql, *locations]) == 2
        out, err = capsys.readouterr()
        assert message in err and err.count("\n") == 1 and out == "", sql


def test_what_is_asked_is_answered(mirror):
    table = query.ask(mirror, "SELECT seed, valid_nll FROM trials WHERE head = 'mos' ORDER BY seed")
    assert table.headings == ["seed", "valid_nll"]
    assert table.rows == [(0, 4.0), (1, 4.1), (2, 4.2)]


EXPLAINED = (
    "EXPLAIN SELECT 1",
    "EXPLAIN ANALYZE SELECT seed FROM trials",
    "explain (analyze, format json) (SELECT 1);",
    "-- how?\n EXPLAIN WITH x AS (SELECT 1) SELECT * FROM x",
    "EXPLAIN FROM trials",
)


def test_a_question_may_be_explained(mirror):
    assert all(query.ask(mirror, sql).rows for sql in EXPLAINED)


def test_the_forms_say_the_same(mirror):
    sql = "SELECT arm, seed, valid_nll, reason FROM trials ORDER BY seed"
    answer = query.ask(mirror, sql)
    rows = list(csv.DictReader(io.StringIO(query.written(answer, "csv"))))
    assert [(row["arm"], int(row["seed"]), float(row["valid_nll"])) for row in rows] == [
        row[:3] for row in answer.rows
    ]
    plain = json.loads(query.written(answer, "json"))
    assert [tuple(row.values()) for row in plain] == answer.rows
    lines = query.written(answer, "markdown").splitlines()
    assert lines[1] == "| --- | ---: | ---: | --- |"
    assert lines[2] == "| a\\|b | 0 | 4 |  |"
    assert query.written(answer, "text").splitlines()[-1] == "(3 rows)"


def test_times_with_a_zone_need_no_further_package(mirror, monkeypatch):
    monkeypatch.setitem(sys.modules, "pytz", None)  # as where it is not installed
    sql = "SELECT seed, now() AS a, [now()] AS a, sum(seed) OVER () FROM trials ORDER BY seed DESC"
    table = query.ask(mirror, sql)
    assert table.headings[:3] == ["seed", "a", "a"]
    assert [row[0] for row in table.rows] == [2, 1, 0]
    for _, moment, (same,), total in table.rows:
        assert (moment, total) == (same, 3)
        assert abs(moment - datetime.now(UTC).replace(tzinfo=None)) < timedelta(hours=1)
    assert query.written(table, "csv") and query.written(table, "json")


def test_now_is_compared_with_times_in_utc(mirror, monkeypatch):
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")  # 14 hours ahead
    time.tzset()
    try:
        ((utc,),) = query.ask(mirror, "SELECT now()::TIMESTAMP").rows
    finally:
        monkeypatch.undo()
        time.tzset()
    assert abs(utc - datetime.now(UTC).replace(tzinfo=None)) < timedelta(hours=1)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT count(*) FROM range(10000000000000)", "stopped after 0.2 seconds, the limit"),
        (
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT sum(n) FROM t",
            "stopped after 0.2 seconds, the limit",
        ),
        ("SELECT range FROM range(101)", "more than 100 rows, the limit. Instead: a condition"),
        ("SELECT list(range) FROM range(100000000)", "needs more than 100MB, the limit"),
        ("SELECT '\udcff'", "not valid UTF-8"),
        ("SELECT '\0'", "has a zero byte"),
    ],
)
def test_a_query_without_end_is_stopped(mirror, monkeypatch, sql, message):
    monkeypatch.setattr(query, "MOST_SECONDS", 60 if "list" in sql else 0.2)
    monkeypatch.setattr(query, "MOST_ROWS", 100)
    monkeypatch.setattr(query, "MEMORY", "100MB")
    monkeypatch.setattr(query, "SHUT", ("SET memory_limit = '100MB'", *query.SHUT[6:]))
    with pytest.raises(ConfigError, match=message):
        query.ask(mirror, sql)


@pytest.mark.slow
def test_a_function_that_duckdb_does_not_stop_is_left_behind(mirror, monkeypatch):
    """It took 85 s, whatever the limit: DuckDB looks for an interruption between rows."""
    monkeypatch.setattr(query, "MOST_SECONDS", 0.1)
    monkeypatch.setattr(query, "GRACE_SECONDS", 0.1)
    with pytest.raises(StillRunning, match=r"stopped after 0\.1 seconds, the limit"):
        query.ask(mirror, "SELECT length(lpad('x', 100000000, 'y'))")
    for thread in threading.enumerate():
        if thread.name == "ablate-query":
            thread.join()


ENDS = """
import sys
from ablate import cli
from ablate.compare.across import query
query.MOST_SECONDS = query.GRACE_SECONDS = 0.1
sys.argv = ["ablate", *sys.argv[1:]]
sys.exit(cli.main())
"""


@pytest.mark.slow
def test_a_command_ends_though_its_query_goes_on(recorded):
    """At Python's end, a thread inside DuckDB aborted the process with a line of C++."""
    recorded.study("one", {"a": [recorded.trial("t1", CONFIG)]})
    sql = "SELECT length(lpad('x', 300000000, 'y'))"
    place = ["--workspace", str(recorded.workspace.folder)]
    words = [sys.executable, "-c", ENDS, "query", sql, *place]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("ablate: query: stopped after 0.1 seconds")

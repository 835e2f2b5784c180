"""Secrets in every shape, and texts that have none."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablate import redaction
from ablate.errors import AblateError
from ablate.redaction import keep_secret, redacted
from ablate.store.outcome import Outcome, Status
from tests.support import places

# Parts of a secret: none may be left of it, whatever is between them.
PARTS = ("Zq7x", "Xk9w", "Wv3u")
BETWEEN = ("", "@", "/", ":", "?", "#", "%2F", "://", "@@", "***", "'", ")", "=", ";", "1/")
LOGINS = (
    "postgresql://user:{}@host/db",
    "postgresql+psycopg://user:{}@host:5432/db?sslmode=require",
    "http://user:{}@127.0.0.1:5000",
    "https://:{}@host",
    "s3://KEY:{}@bucket/x?nonsense=1",
    "s3://bucket/x?endpoint_override=http://user:{}@minio:9000",
    "Cannot parse URI: 's3://KEY:{}@bucket/x' due to a syntax error",
    '{{"uri":"redis://:{}@host"}}',
)
PARAMETERS = (
    "postgresql://host/db?user=me&password={}",
    "postgresql://host/db?user=me;sslpassword={}&x=1",
    "s3://bucket/x?access_key=A&secret_key={}&region=eu",
    "abfss://container@account/x?sig={}",
    "https://host/x#access_token={}",
    "https://host/x?p%61ssword={}",
    "mssql+pyodbc:///?odbc_connect={}",
    "HTTPConnectionPool: Max retries exceeded with url: /api?api_key={}",
)
TEXTS = (
    "connection failed: host=h user=me password={} dbname=x",
    'config = {{"secret_key": "{}"}}',
    "DRIVER=x;UID=sa;PWD={}",
    "headers: Authorization: Bearer {}",
    "headers: {{'Authorization': 'Basic {}'}}",
)
TOKENS = ("https://{}@github.com/a/b", "https://{}:@host", "s3://{}@bucket/x", "http://{}@h:1/a@b")


def shapes() -> Iterator[tuple[str, str]]:
    """Each shape with the secrets that can be in it."""
    for shape, between in itertools.product(LOGINS, BETWEEN):
        yield shape, between.join(PARTS)
    for shape, between in itertools.product(PARAMETERS, ("", "@", "/", "#", ";", "?", "%26", "=")):
        yield shape, between.join(PARTS)
    for shape, between in itertools.product(TEXTS, ("", "@", "/", "%", "=", ".")):
        yield shape, between.join(PARTS)
    for shape, between in itertools.product(TOKENS, ("", "_", "-", "%2F", ".")):
        yield shape, between.join(PARTS)


def left_of(text: str) -> list[str]:
    return [part for part in PARTS if part in text]


def test_no_part_of_a_secret_is_left() -> None:
    listed = list(shapes())
    assert len(listed) > 200
    shown = {shape.format(secret): redacted(shape.format(secret)) for shape, secret in listed}
    assert {text: safe for text, safe in shown.items() if left_of(safe)} == {}
    assert {text: safe for text, safe in shown.items() if "***" not in safe} == {}
    assert [safe for safe in shown.values() if redacted(safe) != safe] == []


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=9).filter(lambda s: s.strip()))
def test_a_known_location_hides_its_secret_in_any_spelling(between: str) -> None:
    """Also one with spaces and quotes, where its shape alone does not show the end."""
    secret = between.join(PARTS)
    for uri in (f"s3://KEY:{secret}@bucket/x", f"https://host/x?token={quote(secret, safe='')}"):
        redaction._known.clear()
        keep_secret(uri)
        texts = (uri, f"'{uri}': no", secret, quote(secret, safe=""), repr(secret))
        texts += (json.dumps({"why": f"{secret}!"}),)
        assert [text for text in texts if left_of(redacted(text))] == []
    redaction._known.clear()


def test_a_password_that_is_a_word_spoils_no_message() -> None:
    keep_secret("postgresql://searches:searches@host/searches")
    assert redacted("ablate report sync --searches x") == "ablate report sync --searches x"
    keep_secret("postgresql://host/x?password=with some space&sslmode=require")
    assert redacted("it is 'with some space'") == "it is '***'"
    redaction._known.clear()


def test_what_is_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "Xk9w Wv3u")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/token")
    monkeypatch.setenv("PWD", "/the/folder")
    assert redacted("the password Xk9w Wv3u is wrong") == "the password *** is wrong"
    assert redacted("see /var/run/token in /the/folder") == "see /var/run/token in /the/folder"


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("http://me:secret@host:1", "http://me:***@host:1"),
        ("postgresql://me:secret@host/x", "postgresql://me:***@host/x"),
        ("s3://KEY:secret@bucket/x?region=eu", "s3://***:***@bucket/x?region=eu"),
        (f"http://{'k' * 20}:x@host", "http://***:***@host"),
        (
            "s3://b/x?region=eu&secret_key=a&scheme=http",
            "s3://b/x?region=eu&secret_key=***&scheme=http",
        ),
        # nothing secret:
        *[
            (text, text)
            for text in (
                "postgresql+psycopg://searches@postgres/searches",
                "abfs://container@account.dfs.core.windows.net/x",
                "sqlite:////home/me:x@corp/mlflow.db",
                "file:///home/me:x@corp/store",
                "http://127.0.0.1:5000/#/experiments?workflowType=machine_learning",
                "s3://bucket/studies/doc_layer_mix@laptop/study.json",
                "doc@laptop: http://mlflow:5000 does not answer; ablate report sync doc@laptop",
                "training.clip = -1.0 is not allowed. Expected: a number above 0.",
                "if password == other: the token is wrong",
            )
        ],
    ],
)
def test_what_is_shown(text: str, safe: str) -> None:
    assert redacted(text) == safe


def test_our_own_words_stay_as_they_are() -> None:
    """Help, errors and documentation: hiding too much would be noticed here."""
    files = [
        *(places.ROOT / "tests" / "golden").glob("*.txt"),
        *(places.ROOT / "docs").glob("*.md"),
    ]
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert len(lines) > 1000
    assert [line for line in lines if redacted(line) != line] == []


@pytest.mark.parametrize("unit", ["a", "a1.", "'", "password", "&a", "?", "://", "a:", "=", "\\'"])
def test_long_texts_are_no_trap(unit: str) -> None:
    """A pattern that tries every start against every end would never return."""
    assert redacted(f"{unit * 100_000} http://user:x@host").endswith("***@host")


def test_errors_and_outcomes_have_no_secrets() -> None:
    uri = "s3://KEY:Zq7xXk9w@bucket"
    assert str(AblateError(f"cannot open {uri}.")) == "cannot open s3://***:***@bucket."
    failed = Outcome(status=Status.FAILED, reason=uri, frames=f"raise OSError({uri!r})", error=uri)
    assert left_of(json.dumps(failed.to_plain())) == []

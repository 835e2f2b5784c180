"""Takes secrets out of a text that is printed, logged or recorded: the only way to do it.

It knows the shapes that secrets have in texts (a URI's login, a query's `password=`, a header), the
secrets of the locations that this process was given, and those in its environment. When in doubt it
hides too much. A user's name stays visible where it cannot be a token.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from urllib.parse import quote, unquote

HIDDEN = "***"
SHORTEST = 7  # a shorter secret is hidden only where its shape shows it
LONGEST_NAME = 19  # a longer name in front of a password may be a key
WITHOUT_LOGIN = ("sqlite", "file")
# The part in front of the @ is a name here, and may be a token elsewhere.
NAMED = ("postgresql", "postgres", "mysql", "mariadb", "mssql", "oracle", "abfs", "abfss", "wasb",
         "wasbs", "hdfs", "viewfs", "sftp", "ssh")  # fmt: skip

_SECRET = r"pass|pwd|secret|token|key|signature|credential|auth|^sig$|^dsn$|^odbc_connect$"
_ASSIGNED = r"pass(?:word|wd|phrase)|pwd|secret|(?:api|access|secret|private|account)_?key|" + (
    r"(?:auth|access|session)_?token"
)
_PUNCTUATION = r"""['".,:;)\]}]{0,4}"""  # after a value: it stays
_QUOTED = r"""'(?:[^'\\]|\\.)*(?:'|$)|"(?:[^"\\]|\\.)*(?:"|$)"""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9.-]{0,20})(?:\+[A-Za-z0-9.-]{1,20})?://")
_PARAMETER = re.compile(rf"(?<=[?&;#])([^=&;#?\s]+)=(?=([^&\s]*?){_PUNCTUATION}(?:[&\s]|$))")
_ASSIGNMENT = re.compile(  # unless it is hidden already
    rf"""(?i)((?:{_ASSIGNED})\w{{0,20}}(?:\s{{0,3}}=(?!=)\s*|["']\s{{0,3}}[:=]\s*))"""
    rf"(?!\*{{3}}(?:\W|$))(?:{_QUOTED}|\S+?(?={_PUNCTUATION}(?:\s|$)))"
)
_KIND = r"(?:basic|bearer|token)\s"
_HEADER = re.compile(
    rf"(?i)(\b(?:authorization\W+(?:{_KIND})?|bearer\s)\s*)(?!\W*{_KIND})\S{{6,}}?"
    rf"(?={_PUNCTUATION}(?:\s|$))"
)
_IN_ENVIRONMENT = re.compile(
    r"(?i)(PASSWORD|PASSWD|SECRET|TOKEN|(SECRET|ACCESS|API|PRIVATE|ACCOUNT)_?KEY)$"
)
_known: dict[str, str] = {}  # a text of this process -> what is shown instead


def redacted(text: str) -> str:
    """The text without secrets."""
    known = _known | _of_environment()
    # The longest first: a short secret may be a part of a long one.
    for secret in sorted(known, key=len, reverse=True):
        text = text.replace(secret, known[secret])
    if "://" in text:
        text = re.sub(r"\S+", lambda run: _without_logins(run[0]), text)
    text = _without_parameters(text)
    text = _ASSIGNMENT.sub(rf"\1{HIDDEN}", text)
    return _HEADER.sub(rf"\1{HIDDEN}", text)


def keep_secret(uri: str) -> None:
    """Hide the secrets of a location wherever they appear from now on, in any spelling."""
    whole = re.sub(r"\s", "\0", uri)  # white space ends a URI in a text, but not this one
    shown = _without_parameters(_without_logins(whole)).replace("\0", " ")
    scheme = _SCHEME.match(whole)
    if scheme is None or shown == uri:
        return
    _known[uri] = shown
    for part in _parts_with_secrets(whole, scheme):
        # A message may show a secret as it was given, decoded, or as a literal.
        for plain in (uri[part], unquote(uri[part])):
            spellings = (plain, quote(plain, safe=""), repr(plain)[1:-1], json.dumps(plain)[1:-1])
            hidden = (text for text in spellings if len(text) >= SHORTEST and text not in shown)
            _known.update(dict.fromkeys(hidden, HIDDEN))


def _parts_with_secrets(uri: str, scheme: re.Match[str]) -> Iterator[slice]:
    end = _end_of_login(scheme[1], uri[scheme.end() :])
    if end is not None:
        name, _, password = uri[scheme.end() :][:end].partition(":")
        first = len(name) + 1 if password else 0
        yield slice(scheme.end() + first, scheme.end() + end)
    yield from (slice(*p.span(2)) for p in _PARAMETER.finditer(uri) if _is_secret(p[1]))


def _without_logins(run: str) -> str:
    """A text of one or more URIs, each without its password or token."""
    shown, at = "", 0
    for scheme in _SCHEME.finditer(run):
        end = None if scheme.start() < at else _end_of_login(scheme[1], run[scheme.end() :])
        if end is not None:
            login = run[scheme.end() : scheme.end() + end]
            shown += run[at : scheme.end()] + _shown_login(scheme[1], login)
            at = scheme.end() + end
    return shown + run[at:]


def _end_of_login(scheme: str, rest: str) -> int | None:
    """Where the @ is that ends the login. A password may itself contain @ and /."""
    host = re.match(r"[^/?#]*", rest)[0]  # type: ignore[index]  # it matches any text
    if "@" not in rest or scheme.lower() in WITHOUT_LOGIN:
        return None
    if "@" in host and ":" not in host[: host.rindex("@")]:
        return host.rindex("@")
    return rest.rindex("@") if ":" in host else None


def _shown_login(scheme: str, login: str) -> str:
    name, _, password = login.partition(":")
    if not password:
        return name if scheme.lower() in NAMED else HIDDEN
    is_short = scheme.lower() in ("http", "https") and len(name) <= LONGEST_NAME
    is_name = scheme.lower() in NAMED or is_short
    return f"{name if is_name else HIDDEN}:{HIDDEN}"


def _without_parameters(text: str) -> str:
    """A text without the values of parameters that may be secret; such a value ends at an & or at
    white space."""
    parts, at = [], 0
    for pair in _PARAMETER.finditer(text):
        if pair.start() >= at and _is_secret(pair[1]):
            parts += [text[at : pair.end()], HIDDEN]
            at = pair.end(2)
    return "".join([*parts, text[at:]])


def _is_secret(name: str) -> bool:
    return re.search(_SECRET, unquote(name), re.IGNORECASE) is not None


def names_a_secret(variable: str) -> bool:
    """Return whether a variable of the environment holds a secret, by its name."""
    return _IN_ENVIRONMENT.search(variable) is not None


def _of_environment() -> dict[str, str]:
    values = (value for name, value in os.environ.items() if names_a_secret(name))
    return {value: HIDDEN for value in values if len(value) >= SHORTEST}

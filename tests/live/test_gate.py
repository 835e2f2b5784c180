"""Who may read the page: methods, hosts, tokens, headers, paths."""

from __future__ import annotations

import pytest

from ablate.live.gate import is_loopback
from ablate.live.served import Served
from tests.support.live_pages import KEY, Client


@pytest.fixture
def with_token(place):
    return Client(Served(place.workspace), "open sesame", "http://lab.example:5050")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_only_reading_is_allowed(client, method):
    answer = client.request(method, "/")
    assert answer.status_code == 405 and answer.headers["allow"] == "GET, HEAD"
    assert client.request("HEAD", "/").status_code == 200
    assert client.request("HEAD", "/events").status_code == 200  # which has no end otherwise


@pytest.mark.parametrize("host", ["evil.example", "evil.example:5050", "127.0.0.1.evil.example"])
def test_another_sites_name_for_this_machine_is_refused(client, host):
    assert client.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost:5050", "127.0.0.1", "[::1]:5050"])
def test_this_machines_own_names_are_not(client, host):
    assert client.get("/", headers={"host": host}).status_code == 200


def test_without_the_token_nothing_is_shown(with_token):
    for path in ("/", f"/study/{KEY}", "/static/page.css", "/events", "/?token=wrong"):
        assert with_token.get(path).status_code == 401


def test_the_token_becomes_a_cookie_and_leaves_the_address(with_token):
    answer = with_token.get("//evil.example/?page=1&token=open+sesame")
    assert answer.status_code == 303 and answer.headers["location"] == "/evil.example/?page=1"
    assert "httponly" in answer.headers["set-cookie"].lower()
    assert with_token.get("/").status_code == 200


def test_a_browser_is_restrained(client):
    for path in ("/", "/nothing", "/static/page.js"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "script-src 'self';" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


OUTSIDE = (
    *("/static/..%2fapp.py", "/static/%2e%2e/app.py", "/static//etc/passwd"),
    *("/study/..%2f..%2fetc", "/figure/..%2f..%2fx/deltas.svg", "/trial/..%2f..%2fetc"),
)


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_out_of_the_store(client, path):
    assert client.get(path).status_code == 404


def test_addresses_of_this_machine_alone():
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "10.0.0.1", "localhost.example", "", "::")))

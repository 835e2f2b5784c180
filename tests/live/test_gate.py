"""Who may read the page: methods, hosts, tokens, headers, paths."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from ablate.live import mlflow_app
from ablate.live.gate import Gate, is_loopback
from ablate.live.mlflow import APP
from ablate.live.served import Served
from tests.support.live_pages import KEY, Client


@pytest.fixture(params=["http://lab.example:5050", "http://127.0.0.1:5050"])
def stranger(place, request):
    return Client(Served(place.workspace), request.param, given="wrong")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_only_reading_is_allowed(client, method):
    answer = client.request(method, "/")
    assert answer.status_code == 405 and answer.headers["allow"] == "GET, HEAD"
    assert client.request("HEAD", "/").status_code == 200


def test_without_the_token_nothing_is_shown(stranger):
    for path in ("/", f"/study/{KEY}", "/static/page.css", "/changes", "/?token=wrong"):
        assert stranger.get(path).status_code == 401


def test_the_token_becomes_a_cookie_and_leaves_the_address(stranger):
    answer = stranger.get("//evil.example/?page=1&token=open+sesame")
    assert answer.status_code == 303 and answer.headers["location"] == "/evil.example/?page=1"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert cookie.startswith("ablate_token_5050=")  # two servers of one machine keep theirs apart
    assert stranger.get("/").status_code == 200


def test_what_a_browser_is_started_with_works_once(place):
    served = Served(place.workspace)
    first, second = Client(served, given="only once"), Client(served, given="wrong")
    assert first.get("/").status_code == 200
    assert first.get("/?token=only+once").status_code == 200  # as one that has been let in
    second._app = first._app
    assert second.get("/?token=only+once").status_code == 401


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("path", ["/mlflow", f"/study/{KEY}", "/"])
def test_another_sites_link_starts_nothing(client, path, site):
    assert client.get(path, headers={"sec-fetch-site": site}).status_code == 403
    assert client.get("/", headers={"sec-fetch-site": "none"}).status_code == 200


def test_mlflows_page_is_behind_the_gate_too():
    async def mlflows(scope, receive, send):
        await PlainTextResponse("runs")(scope, receive, send)

    client = TestClient(Gate(mlflows, "open", is_mlflows=True), follow_redirects=False)
    linked = {"sec-fetch-site": "same-site"}
    assert client.get("/").status_code == client.post("/api").status_code == 401
    assert client.get("/?token=wrong", headers=linked).status_code == 401
    assert client.get("/?token=open", headers=linked).status_code == 303
    answer = client.post("/api")
    assert answer.text == "runs" and "content-security-policy" not in answer.headers
    assert client.post("/api", headers=linked).status_code == 403
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/socket"):
        pass


def test_mlflows_server_finds_the_app_behind_the_gate():
    [found] = entry_points(group="mlflow.app", name=APP)
    assert found.load() is mlflow_app.app


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

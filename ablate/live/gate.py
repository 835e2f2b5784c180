"""Who may read the page, and what a browser may do with it.

A token is needed, also on loopback, where other users of the machine are: in the address at first,
which the browser then keeps in a cookie. The cookie is of the name that the reader has opened, so a
page of another site whose name has been made to lead here has none. What another site's page links
to or fetches is refused: a question to the records takes seconds, and MLflow half a gigabyte.
"""

from __future__ import annotations

import hmac
import ipaddress
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

READING = ("GET", "HEAD")
OWN = ("same-origin", "none")  # of `Sec-Fetch-Site`: from the page itself, or typed
COOKIE, PARAMETER = "ablate_token", "token"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def is_loopback(host: str) -> bool:
    """Return whether an address or a name is this machine, for this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Gate:
    """Lets requests pass that may read, and adds the headers that restrain a browser."""

    def __init__(self, app: Any, token: str, once: str = "", *, is_mlflows: bool = False) -> None:
        """`is_mlflows`: the app is MLflow's, which asks by POST and has headers of its own."""
        self._app, self._token, self._once = app, token, once
        self._is_mlflows = is_mlflows

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request, as ASGI has it."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close"})
            else:
                await self._app(scope, receive, send)
            return

        async def send_restrained(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refused = self._refused(Request(scope))
        passes = self._is_mlflows and refused is None
        await (refused or self._app)(scope, receive, send if passes else send_restrained)

    def _refused(self, request: Request) -> Response | None:
        """The answer to a request that may not pass; None for one that may."""
        given = request.query_params.get(PARAMETER)
        site = request.headers.get("sec-fetch-site", "none")
        if request.method not in READING and not self._is_mlflows:
            text = f"{request.method} is refused: this page only reads."
            return PlainTextResponse(text, 405, {"Allow": ", ".join(READING)})
        # Our page leads to MLflow's, on another port, with the token.
        if site not in OWN and not (self._is_mlflows and site == "same-site" and given is not None):
            text = "A page of another site led here. Instead: type or paste this address."
            return PlainTextResponse(text, 403)
        if given is not None and self._opens(given):
            return _with_cookie(request, self._token)
        if _same(request.cookies.get(_cookie(request), ""), self._token):
            return None
        return PlainTextResponse("Open the address that `ablate ui` printed, with its token.", 401)

    def _opens(self, given: str) -> bool:
        """Return whether this is the token, or the one that has not been used yet."""
        if self._once and _same(given, self._once):
            self._once = ""
            return True
        return _same(given, self._token)


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


def _cookie(request: Request) -> str:
    """The cookie's name, with the port: a browser sends a host's cookies to all its ports."""
    return f"{COOKIE}_{request.url.port or 80}"


def _with_cookie(request: Request, token: str) -> Response:
    """The same address without the token, which the browser keeps until it is closed."""
    others = [pair for pair in parse_qsl(request.url.query) if pair[0] != PARAMETER]
    # The path alone: a redirect may not lead to another host.
    address = "/" + request.url.path.lstrip("/") + (f"?{urlencode(others)}" if others else "")
    answer = RedirectResponse(address, 303)
    answer.set_cookie(_cookie(request), token, httponly=True, samesite="strict")
    return answer

"""Who may see a page, by the headers of a request."""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Protocol
from urllib.parse import urlsplit

# Nothing from anywhere else, nothing inline: text of a record that finds its way into the page cannot act there.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that is bound to ``host``.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Headers(Protocol):
    """What a request says about itself, by name."""

    def get(self, name: str, default: str, /) -> str:
        """Return a header, or ``default``."""


@dataclass(frozen=True, slots=True)
class Access:
    """The rule of one server: on loopback by its own name only, elsewhere with the token only, as cookie or bearer.

    A page of a stranger could point its name at 127.0.0.1; its requests then carry that name as their host.
    """

    host: str
    port: int
    token: str | None

    @property
    def cookie(self) -> str:
        """The cookie's name; cookies do not tell ports apart."""
        return f"glimpse-{self.port}"

    def admits(self, headers: Headers) -> bool:
        """Return whether a request with these headers may be answered."""
        if self.token is None:
            try:
                return is_loopback(urlsplit(f"//{headers.get('Host', '')}").hostname or "")
            except ValueError:  # as of "[::1"
                return False
        scheme, _, said = headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.matches(said.strip())
        try:
            cookies = SimpleCookie(headers.get("Cookie", ""))
        except CookieError:
            return False
        found = cookies[self.cookie].value if self.cookie in cookies else ""
        return self.matches(found)

    def matches(self, token: str) -> bool:
        """Return whether ``token`` is the right one, in a time that does not tell how much of it is."""
        return self.token is not None and hmac.compare_digest(token.encode(), self.token.encode())

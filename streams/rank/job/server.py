"""The ranking service over HTTP: lists, feedback, health and figures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from schemas.json_text import parse_json
from streams.rank.job.service import NoRoom, RankService, TooLate
from streams.rank.job.service_metrics import service_metrics
from streams.rank.openapi import openapi
from streams.rank.requests import RequestError, rank_request
from streams.web import CONTENT_TYPE, Access, WebError, WebServer, is_loopback, verdict

BODY_BYTES = 4 << 20
BODIES_BYTES = 64 << 20  # of all requests that are being read
BATCH = 1000  # requests for lists in one body
OPEN = ("/livez", "/readyz", "/metrics")  # to orchestrators, which bring no token, as of the jobs
JSON = "application/json"
LINES = "application/x-ndjson"

Handler = Callable[[web.BaseRequest], Awaitable[web.Response]]


class RankServer(WebServer):
    """Answers /rank, /click and /feedback, and says how it is."""

    methods = ("GET", "HEAD", "POST")
    body_bytes = BODY_BYTES
    most_connections = 2048

    def __init__(
        self, service: RankService, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None
    ) -> None:
        if token is None and not is_loopback(host):
            raise WebError(f"{host} can be reached by others; serve it with a token, or on 127.0.0.1")
        super().__init__("the ranking service", host=host, port=port)
        self.service = service
        self.access = Access(host, self.port, token)
        self.answers: dict[tuple[str, int], int] = {}  # by path and status
        self._reading = 0
        self._get: dict[str, Handler] = {
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/metrics": self._metrics,
            "/items": self._items,
            "/openapi.json": self._openapi,
        }
        self._post: dict[str, Handler] = {"/rank": self._rank, "/click": self._click, "/feedback": self._feedback}

    async def page(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the answer to one request."""
        routes = self._post if request.method == "POST" else self._get
        path = request.path if request.path in self._get or request.path in self._post else "other"
        try:
            response = await self._routed(request, routes.get(request.path))
        except (RequestError, ValueError) as error:
            response = problem(400, str(error))
        except LookupError as error:  # an item, a tag or a namespace that is not there
            response = problem(404, str(error))
        except (NoRoom, TooLate) as error:
            response = problem(503, str(error), {"Retry-After": "1"})
        self.answers[path, response.status] = self.answers.get((path, response.status), 0) + 1
        return response

    async def _routed(self, request: web.BaseRequest, handler: Handler | None) -> web.Response:
        if not (self.access.admits(request.headers) or (self.access.token and request.path in OPEN)):
            wanted = "send Authorization: Bearer TOKEN" if self.access.token else "use 127.0.0.1 or localhost"
            return problem(403, f"not for you here; {wanted}")
        if self.waited_s(request) > self.service.options.deadline_s:
            raise TooLate("too many requests at once; this one waited too long")
        if handler is None:
            known = request.path in self._get or request.path in self._post
            return problem(405 if known else 404, f"no {request.method} {request.path}; see /openapi.json")
        if request.method == "POST" and request.content_type not in (JSON, LINES):
            return problem(415, f"send Content-Type: {JSON}, or {LINES} for a line each")
        return await handler(request)

    async def _body(self, request: web.BaseRequest) -> Any:
        """Return the JSON of a request, or of its lines as a list; all bodies together keep to a bound."""
        size = request.content_length or self.body_bytes
        if self._reading + size > BODIES_BYTES:
            raise NoRoom("too many large requests at once; send this one again later")
        self._reading += size
        try:
            body = await request.read()
        finally:
            self._reading -= size
        if request.content_type == LINES:
            return [parse_json(line) for line in body.splitlines() if line.strip()]
        return parse_json(body)

    async def _rank(self, request: web.BaseRequest) -> web.Response:
        found = await self._body(request)
        if not isinstance(found, list):
            return answer(await self.service.rank(rank_request(found)))
        if len(found) > BATCH:
            return problem(413, f"{len(found)} requests in one body; at most {BATCH}")
        answers = []
        for one in found:  # each by itself: those before a failure are logged, and will be shown
            try:
                if self.waited_s(request) > self.service.options.deadline_s:
                    raise TooLate("the deadline came before this request's turn")
                answers.append(await self.service.rank(rank_request(one)))
            except (ValueError, LookupError, NoRoom, TooLate) as error:
                answers.append({"error": str(error)})
            await asyncio.sleep(0)  # single lists do not wait for a whole batch
        return answer(answers)

    async def _click(self, request: web.BaseRequest) -> web.Response:
        found = await self._body(request)
        if not isinstance(found, dict):
            raise RequestError("a click is an object with impression_id, session_id and position")
        taken = await self.service.feedback([{**found, "type": "click"}])
        if taken["refused"]:
            raise RequestError(taken["errors"][0]["error"])
        return answer({"accepted": 1}, 202)

    async def _feedback(self, request: web.BaseRequest) -> web.Response:
        found = await self._body(request)
        taken = await self.service.feedback(found if isinstance(found, list) else [found])
        return answer(taken, 202 if taken["accepted"] or not taken["refused"] else 400)

    async def _items(self, request: web.BaseRequest) -> web.Response:
        return answer(self.service.status())

    async def _openapi(self, request: web.BaseRequest) -> web.Response:
        return answer(openapi())

    async def _livez(self, request: web.BaseRequest) -> web.Response:
        return text(*verdict(None))

    async def _readyz(self, request: web.BaseRequest) -> web.Response:
        return text(*verdict(self.service.problem()))

    async def _metrics(self, request: web.BaseRequest) -> web.Response:
        figures = service_metrics(self.service, self.answers)
        return web.Response(body=figures.encode(), headers={"Content-Type": CONTENT_TYPE})


def answer(found: object, status: int = 200) -> web.Response:
    """Return JSON."""
    return web.Response(status=status, body=json.dumps(found).encode(), content_type=JSON)


def problem(status: int, words: str, headers: dict[str, str] | None = None) -> web.Response:
    """Return what was wrong, as JSON."""
    body = json.dumps({"error": words}).encode()
    return web.Response(status=status, body=body, content_type=JSON, headers=headers)


def text(status: int, words: str) -> web.Response:
    """Return plain words."""
    return web.Response(status=status, text=words)

"""The ranking service over HTTP: lists, feedback, health and figures."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Event

import msgspec
from aiohttp import web

from schemas.json_text import parse_json
from streams.events.job import EventQueue
from streams.parameters.job import open_parameters, serving_store
from streams.rank.bodies import Problem, RankAnswer, openapi
from streams.rank.catalogue_file import read_encoder
from streams.rank.job.catalogues import CatalogueFile, CatalogueSource, CatalogueTopic
from streams.rank.job.metrics import service_metrics
from streams.rank.job.models import Models
from streams.rank.job.service import NoRoom, RankService, TooLate
from streams.rank.requests import RankRequest, RequestError, click_event, rank_lines, rank_request, rank_requests
from streams.settings import Settings
from streams.web import CONTENT_TYPE, Access, WebError, WebServer, is_loopback, verdict

BODY_BYTES = 4 << 20
BODIES_BYTES = 64 << 20  # of all requests that are being read
BATCH = 1000  # requests for lists in one body
OPEN = ("/livez", "/readyz", "/metrics")  # to orchestrators, which bring no token, as of the jobs
JSON = "application/json"
LINES = "application/x-ndjson"
SWITCH_S = 0.001  # a list waits no longer for the threads that write to Kafka and look for snapshots; Python's is 0.005

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
        self._get: dict[str, Callable[[], web.Response]] = {
            "/livez": lambda: text(*verdict(None)),
            "/readyz": lambda: text(*verdict(service.problem())),
            "/metrics": self._metrics,
            "/items": lambda: answer(service.status()),
            "/openapi.json": lambda: answer(openapi()),
        }
        self._post: dict[str, Handler] = {"/rank": self._rank, "/click": self._click, "/feedback": self._feedback}

    async def page(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the answer to one request."""
        path = request.path if request.path in self._get or request.path in self._post else "other"
        try:
            response = await self._routed(request)
        except ValueError as error:
            response = problem(400, str(error))
        except LookupError as error:  # an item, a tag or a namespace that is not there
            response = problem(404, str(error))
        except (NoRoom, TooLate) as error:
            response = problem(503, str(error), {"Retry-After": "1"})
        self.answers[path, response.status] = self.answers.get((path, response.status), 0) + 1
        return response

    async def _routed(self, request: web.BaseRequest) -> web.Response:
        if not (self.access.admits(request.headers) or (self.access.token and request.path in OPEN)):
            wanted = "send Authorization: Bearer TOKEN" if self.access.token else "use 127.0.0.1 or localhost"
            return problem(403, f"not for you here; {wanted}")
        if self.waited_s(request) > self.service.deadline_s:
            raise TooLate("too many requests at once; this one waited too long")
        if request.path not in (self._post if request.method == "POST" else self._get):
            known = request.path in self._get or request.path in self._post
            return problem(405 if known else 404, f"no {request.method} {request.path}; see /openapi.json")
        if request.method != "POST":
            return self._get[request.path]()
        if request.content_type not in (JSON, LINES):
            return problem(415, f"send Content-Type: {JSON}, or {LINES} for a line each")
        return await self._post[request.path](request)

    async def _body(self, request: web.BaseRequest) -> bytes:
        """Return the body of a request; all bodies together keep to a bound."""
        size = request.content_length or self.body_bytes
        if self._reading + size > BODIES_BYTES:
            raise NoRoom("too many large requests at once; send this one again later")
        self._reading += size
        try:
            return await request.read()
        finally:
            self._reading -= size

    async def _rank(self, request: web.BaseRequest) -> web.Response:
        body = await self._body(request)
        wanted = rank_lines(lines_of(body)) if request.content_type == LINES else rank_requests(body)
        if isinstance(wanted, RankRequest):
            return answer(await self.service.rank(wanted))
        if len(wanted) > BATCH:
            return problem(413, f"{len(wanted)} requests in one body; at most {BATCH}")
        answers: list[RankAnswer | Problem] = []
        for text in wanted:  # each by itself: those before a failure are logged, and will be shown
            try:
                if self.waited_s(request) > self.service.deadline_s:
                    raise TooLate("the deadline came before this request's turn")
                answers.append(await self.service.rank(rank_request(text)))
            except (ValueError, LookupError, NoRoom, TooLate) as error:
                answers.append(Problem(str(error)))
            await asyncio.sleep(0)  # single lists do not wait for a whole batch
        return answer(answers)

    async def _click(self, request: web.BaseRequest) -> web.Response:
        taken = await self.service.feedback([click_event(await self._body(request))])
        if taken.refused:
            raise RequestError(taken.errors[0].error)
        return answer(taken, 202)

    async def _feedback(self, request: web.BaseRequest) -> web.Response:
        body = await self._body(request)
        if request.content_type == LINES:
            sent = [parse_json(line) for line in lines_of(body)]
        elif not isinstance(sent := parse_json(body), list):
            sent = [sent]
        taken = await self.service.feedback(sent)
        return answer(taken, 202 if taken.accepted or not taken.refused else 400)

    def _metrics(self) -> web.Response:
        figures = service_metrics(self.service, self.answers)
        return web.Response(body=figures.encode(), headers={"Content-Type": CONTENT_TYPE})


def lines_of(body: bytes) -> list[bytes]:
    """Return the lines of a body that are not blank."""
    return [line for line in body.splitlines() if line.strip()]


def answer(body: object, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """Return JSON."""
    return web.Response(status=status, body=msgspec.json.encode(body), content_type=JSON, headers=headers)


def problem(status: int, words: str, headers: dict[str, str] | None = None) -> web.Response:
    """Return what was wrong, as JSON."""
    return answer(Problem(words), status, headers)


def text(status: int, words: str) -> web.Response:
    """Return plain words."""
    return web.Response(status=status, text=words)


def rank_service(
    settings: Settings,
    *,
    source: str | None = None,
    catalogue: Path | None = None,
    encoder: Path | None = None,
    refresh_s: float = 1.0,
    log_first: bool = False,
    deadline_s: float = 2.0,
) -> RankService:
    """Return a service that reads snapshots from ``source`` (else Redis if set, else Kafka) and writes to Kafka.

    ``catalogue`` is a file, or ``kafka`` for the topic.
    """
    parameters = open_parameters(source or serving_store(settings), settings)
    coder = None if encoder is None else read_encoder(encoder)
    shop: CatalogueSource | None = None
    if catalogue is not None:
        on_topic = str(catalogue) == "kafka"
        shop = CatalogueTopic(settings, encoder=coder) if on_topic else CatalogueFile(catalogue, encoder=coder)
    models = Models(settings.buckets, parameters, catalogue=shop, refresh_s=refresh_s)
    return RankService(settings, models, EventQueue(settings), log_first=log_first, deadline_s=deadline_s)


def serve(server: RankServer, *, say: Callable[[str], None]) -> int:
    """Serve until SIGINT or SIGTERM; return the exit code, 1 when events were lost at the end."""
    sys.setswitchinterval(SWITCH_S)
    done = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: done.set())
    with server:
        say(f"serves {server.url}/rank; the interface is at {server.url}/openapi.json")
        while not done.wait(1.0):
            pass
    server.service.close()
    return 1 if server.service.queue.lost else 0

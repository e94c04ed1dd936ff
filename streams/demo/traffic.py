"""A shop's simulated users: what they like, how they browse, and how they come to its ranking service over HTTP."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
from numpy.typing import NDArray

from learner.simulate import Users, answer, browsing_table, unit
from streams.demo.crowd import Visit
from streams.demo.report import columns
from streams.rank import Catalogue

BROWSING = ("ubm", "pbm", "cm", "dcm")
ITEMS, USERS = 500, 5000  # so few items that a bandit without contexts can learn them in minutes
ITEM_COLUMNS, USER_COLUMNS = 3, 2  # with the recipe below, contexts of 10 numbers
RECIPE = ("constant", "item", "products")
MEAN, SPREAD = 0.15, 0.14  # γ of the items lies within MEAN ± SPREAD
SAMPLE = 200  # users who are asked how far tastes reach
STAY = 0.7  # the chance that a reader who browses by DCM reads on after a click
TICK_S = 0.1  # clicks that fall due within it are sent together
MOST_CLICKS = 1000  # in one body
MOST_SESSIONS = 5000  # at once; further users are turned away and counted
SAY_EVERY_S = 10.0
TWICE = 0.03  # the share of clicks that are sent twice
Say = Callable[[str], None]
Floats = NDArray[np.float64]


class Storefront:
    """Users who find an item attractive with a chance linear in its context, and who look down a list as told.

    Parameters
    ----------
    browse
        ``ubm``, ``pbm``, ``cm`` or ``dcm``: how positions are examined.
    drift
        By how many degrees a minute the taste turns.
    """

    def __init__(self, catalogue: Catalogue, *, browse: str = "ubm", drift: float = 0.0, seed: int = 0) -> None:
        if browse not in BROWSING:
            raise ValueError(f"browse must be one of {', '.join(BROWSING)}; got {browse!r}")
        self.catalogue, self.browse, self.drift = catalogue, browse, drift
        self.users = catalogue.user_ids or [f"user-{number}" for number in range(USERS)]
        random = np.random.default_rng(seed)
        direction = unit(random.normal(size=(2, catalogue.dim)))
        if not catalogue.recipe.coded:
            nothing = np.eye(1, 1 + catalogue.item_columns)  # item and user without features: all but a constant is 0
            direction[:, catalogue.recipe.contexts(nothing, np.zeros(catalogue.user_columns))[0] > 0] = 0.0
        asked = [self.users[number] for number in random.integers(len(self.users), size=SAMPLE)]
        self._tastes = direction * SPREAD
        self._reach = max(float(np.abs(self._agreement(user, self._tastes)).max()) for user in asked) / SPREAD

    def attraction(self, user: str, at_s: float) -> Floats:
        """Return γ of every item of the catalogue for a user, after so many seconds."""
        angle = math.radians(self.drift) * at_s / 60
        turned = np.array([[math.cos(angle), math.sin(angle)]]) @ self._tastes
        return np.clip(MEAN + self._agreement(user, turned)[:, 0] / self._reach, 0.0, 1.0)

    def _agreement(self, user: str, tastes: Floats) -> Floats:
        return self.catalogue.seen_by(self.catalogue.user(user)).contexts(None) @ tastes.T

    def visit(
        self, user: str, items: NDArray[np.int64], at_s: float, random: np.random.Generator
    ) -> tuple[list[int], float]:
        """Return the positions that a user clicks, 1 being the top, and the chance of a click that the list lost."""
        attraction = self.attraction(user, at_s)
        shown = attraction[self.catalogue.rows_of(items)]
        table, stay = examined(self.browse, len(items))
        clicks = answer(shown[None], table, random, stay).clicks[0]
        best = np.sort(attraction)[::-1][: len(items)]
        lost = float(np.prod(1 - table[:, 0] * shown) - np.prod(1 - table[:, 0] * best))
        return (np.flatnonzero(clicks) + 1).tolist(), lost


def examined(browse: str, positions: int) -> tuple[Floats, Floats | None]:
    """Return w[k, k′] of users who browse so, and the chance that they read on after a click, if that counts."""
    table, nobody = browsing_table(positions), np.zeros(1)
    users = {
        "ubm": lambda: Users(nobody, table),
        "pbm": lambda: Users.pbm(nobody, table[:, 0]),
        "cm": lambda: Users.cm(nobody, positions),
        "dcm": lambda: Users.dcm(nobody, np.full(positions, STAY)),
    }[browse]()
    return users.examination, users.continuation


def write_shop(file: Path, *, seed: int = 0) -> None:
    """Write a made-up catalogue: items and users with features, whose contexts have 10 numbers."""
    random = np.random.default_rng(seed)
    with file.open("wb") as out:
        np.savez(
            out,
            items=np.arange(1, ITEMS + 1),
            features=unit(random.normal(size=(ITEMS, ITEM_COLUMNS))).astype(np.float32),
            users=np.array([f"user-{number}" for number in range(USERS)]),
            user_features=unit(random.normal(size=(USERS, USER_COLUMNS))).astype(np.float32),
            recipe=np.array(RECIPE),
        )


class TrafficError(RuntimeError):
    """A service that does not answer."""


@dataclass(frozen=True, slots=True)
class Crowdedness:
    """How many users come, and what they do."""

    rate: float = 20.0  # users a second
    seconds: float | None = 60.0  # None: until stopped
    lists: float = 1.5  # that a user asks for in a session, in the mean
    think_s: float = 3.0  # between two lists, in the mean
    delay_s: float = 2.0  # from a list to each click, in the mean
    patience_s: float = 60.0  # for the service to be up


class Traffic:
    """What users asked for, what they clicked, and how the service answered."""

    def __init__(
        self, url: str, shop: Storefront, how: Crowdedness, *, seed: int = 0, token: str | None = None
    ) -> None:
        self.url, self.shop, self.how = url.rstrip("/"), shop, how
        self.visits: list[Visit] = []
        self.latency_s: list[float] = []
        self.answers = Counter[str]()  # by path and status
        self.clicks = 0  # that the service has taken
        self.turned_away = 0
        self.stopping = asyncio.Event()
        self._random = np.random.default_rng(seed)
        self._due: list[dict[str, Any]] = []
        self._pending = 0  # clicks that are still to be made
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._began = 0.0
        self._run = f"{self._random.integers(1 << 32):08x}-{int(time.time()):x}"

    async def run(self, say: Say) -> None:
        """Play until the time is over and every click is sent, or until ``stopping`` is set."""
        connector = aiohttp.TCPConnector(limit=100)
        timeout = aiohttp.ClientTimeout(total=30)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=self._headers) as client:
            await self._wait_for_service(client, say)
            self._began = time.monotonic()
            playing = asyncio.Event()
            others = [asyncio.create_task(self._click(client, playing)), asyncio.create_task(self._tell(say))]
            await self._come(client)
            while (self._pending or self._due) and not self.stopping.is_set():
                await asyncio.sleep(TICK_S)
            playing.set()
            others[1].cancel()
            await asyncio.gather(*others, return_exceptions=True)
        if not self.visits:
            raise TrafficError(f"no list was shown; {self.url} answered {dict(self.answers)}")

    @property
    def at_s(self) -> float:
        """How long it plays."""
        return time.monotonic() - self._began

    async def _wait_for_service(self, client: aiohttp.ClientSession, say: Say) -> None:
        began, waits = time.monotonic(), False
        while True:
            try:
                async with client.get(f"{self.url}/items") as response:
                    held = (await response.json()).get("catalogue") if response.status == 200 else None
                    break
            except (aiohttp.ClientError, TimeoutError) as error:
                if self.stopping.is_set() or time.monotonic() - began > self.how.patience_s:
                    raise TrafficError(
                        f"no ranking service at {self.url} ({error}); start one: glimpse serve --catalogue FILE"
                    ) from error
                if not waits:
                    say(f"waiting {self.how.patience_s:g} s for a ranking service at {self.url}")
                waits = True
                await asyncio.sleep(0.3)
        ours = self.shop.catalogue.version
        if held is None or held["version"] != ours:
            version = "none" if held is None else held["version"]
            raise TrafficError(f"{self.url} holds catalogue {version}, the users know {ours}; give both the same file")

    async def _come(self, client: aiohttp.ClientSession) -> None:
        """Let users come at random times, on average ``rate`` a second, and wait for the last of them."""
        sessions: set[asyncio.Task[None]] = set()
        next_s = 0.0
        until_s = np.inf if self.how.seconds is None else self.how.seconds
        while not self.stopping.is_set():
            next_s += float(self._random.exponential(1 / self.how.rate))
            if next_s > until_s:
                break
            if (early_s := next_s - self.at_s) > 0:
                await asyncio.sleep(early_s)
            if len(sessions) >= MOST_SESSIONS:
                self.turned_away += 1
                continue
            task = asyncio.create_task(self._session(client, len(self.visits) + len(sessions)))
            sessions.add(task)
            task.add_done_callback(sessions.discard)
        for task in sessions if self.stopping.is_set() else ():
            task.cancel()
        await asyncio.gather(*sessions, return_exceptions=True)

    async def _session(self, client: aiohttp.ClientSession, number: int) -> None:
        """Be one user: ask for lists, look, click, think."""
        users, random = self.shop.users, self._random
        user = users[int(random.integers(len(users)))]
        session = f"{self._run}-{number}-{random.integers(1 << 40):x}"
        for list_index in range(int(random.geometric(1 / max(1.0, self.how.lists)))):
            if list_index:
                await asyncio.sleep(float(random.exponential(self.how.think_s)))
            shown = await self._post(client, "/rank", {"user": user, "session": session})
            if shown is None or not shown["items"] or self.stopping.is_set():
                return
            at_s = self.at_s
            positions, lost = self.shop.visit(user, np.array(shown["items"]), at_s, random)
            self.visits.append(Visit(shown["bucket"], int(1000 * at_s), len(positions), lost))
            self._begin_clicks(shown, positions)

    def _begin_clicks(self, shown: dict[str, Any], positions: list[int]) -> None:
        loop, delay_s = asyncio.get_running_loop(), 0.0
        for position in positions:
            delay_s += 0.1 + float(self._random.exponential(self.how.delay_s))
            click = {key: shown[key] for key in ("impression_id", "session_id")} | {"position": position}
            for _ in range(2 if self._random.random() < TWICE else 1):
                self._pending += 1
                loop.call_later(delay_s, self._fall_due, {"type": "click", **click})

    def _fall_due(self, click: dict[str, Any]) -> None:
        self._pending -= 1
        self._due.append(click)

    async def _click(self, client: aiohttp.ClientSession, done: asyncio.Event) -> None:
        while not done.is_set():
            await asyncio.sleep(TICK_S)
            batch, self._due = self._due[:MOST_CLICKS], self._due[MOST_CLICKS:]
            if batch:
                taken = await self._post(client, "/feedback", batch)
                if taken is None:
                    self._due += batch  # a service that was away or full gets them later
                    await asyncio.sleep(1.0)
                else:
                    self.clicks += taken["accepted"]

    async def _post(self, client: aiohttp.ClientSession, path: str, body: object) -> dict[str, Any] | None:
        """Return the answer, or None if there was none or it was a refusal, which is counted."""
        began = time.monotonic()
        try:
            async with client.post(self.url + path, json=body) as response:
                answer: dict[str, Any] = await response.json()
        except (aiohttp.ClientError, TimeoutError):
            self.answers[f"{path}: no answer"] += 1
            return None
        self.answers[f"{path}: {response.status}"] += 1
        if path == "/rank":
            self.latency_s.append(time.monotonic() - began)
        return answer if response.status < 300 else None

    async def _tell(self, say: Say) -> None:
        told = 0
        while True:
            await asyncio.sleep(SAY_EVERY_S)
            say(self.line(told))
            told = len(self.visits)

    def line(self, since: int = 0) -> str:
        """Return how it goes in a line: lists, their rate and latency, clicks a list by bucket, what went wrong."""
        recent = self.visits[since:]
        rates = ", ".join(f"{name} {clicks.mean():.2f}" for name, (clicks, _) in columns(recent).items())
        waits_ms = 1000 * np.array(self.latency_s[-len(recent) :] or [0.0])
        middle, late = np.percentile(waits_ms, [50, 99])
        wrong = {words: count for words, count in self.answers.items() if not words.endswith((" 200", " 202"))}
        troubles = f"; {wrong}" if wrong else ""
        away = f"; {self.turned_away} users turned away" if self.turned_away else ""
        return (
            f"{self.at_s:.0f} s: {len(self.visits):,} lists ({len(recent):,} new), answered in {middle:.0f} ms (p99 "
            f"{late:.0f}); clicks a list: {rates or 'none'}{troubles}{away}"
        )

"""The ranking service: a request's list, and the events that go to Kafka; it knows no HTTP."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Any

from learner.arrays import Floats, Ints
from streams.events import Acceptance, Event, MetarankEvents, event_of, impression_of, judge_events
from streams.events.job import EventQueue
from streams.rank.bodies import RankAnswer, RefusedEvent, Taken
from streams.rank.choice import choose
from streams.rank.job.metrics import QUICK
from streams.rank.job.models import Models
from streams.rank.requests import RankRequest, RequestError
from streams.settings import Bucket, Settings
from streams.split import Split
from streams.web import BulkHistogram

YIELD_EVERY = 50  # events of a long body, so that lists do not wait for all of it


class NoRoom(RuntimeError):
    """Events that were refused, since too many wait for Kafka already."""


class TooLate(RuntimeError):
    """An answer that was not there by its deadline."""


class RankService:
    """Ranks with the models in use and logs what was shown and clicked.

    With ``log_first`` a list is answered when Kafka has it, rather than at once. ``deadline_s`` is for an answer.
    """

    def __init__(
        self, settings: Settings, models: Models, queue: EventQueue, *, log_first: bool = False, deadline_s: float = 2.0
    ) -> None:
        self.settings, self.models, self.queue = settings, models, queue
        self.log_first, self.deadline_s = log_first, deadline_s
        self.split = Split.of(settings)
        self.unlogged = 0  # lists that were answered and could not be logged
        self.strangers = 0  # lists for users without features
        self.seconds = BulkHistogram("glimpse_serve_rank_seconds", "To choose one list.", QUICK)
        self._metarank = MetarankEvents(self._bucket, contexts_of=self._contexts if models.catalogues else None)
        self._accept = Acceptance(settings.buckets, future_ms=int(settings.future_s * 1000))

    async def rank(self, request: RankRequest) -> RankAnswer:
        """Return the list for a request, logged before or after by the service's options."""
        name = self.split.bucket_of(request.user, request.namespace, before=request.bucket_before)
        ranking, catalogue = self.split.ranked_by(name), self.models.catalogue
        model, version = self.models.in_use(ranking)
        impression_id = secrets.token_hex(16)
        began = time.perf_counter()
        choice = choose(request, self.settings.buckets[ranking], model, catalogue, impression_id=impression_id)
        self.seconds.observe(time.perf_counter() - began)
        self.strangers += not choice.user_known
        answer = RankAnswer(
            impression_id=None,
            session_id=None,
            bucket=name,
            split=self.split.version,
            version=version,
            items=choice.items.tolist(),
            propensities=None if choice.propensities is None else choice.propensities.tolist(),
            user_known=choice.user_known,
        )
        if catalogue is not None and request.contexts is None:
            answer.catalogue = catalogue.version
        if not len(choice.items):
            return answer  # nothing was shown
        shown = impression_of(
            choice.items,
            choice.contexts,
            impression_id=impression_id,
            session_id=request.session or secrets.token_hex(16),
            bucket=name,
            user_id=request.user,
            shown_at_ms=self.now_ms(),
            ranked_by_epoch=version[0],
            ranked_by_offset=version[1],
            split_version=self.split.version,
            catalogue=answer.catalogue or "",
            propensities=choice.propensities,
            candidate_items=None if choice.candidates is None else choice.candidates.items,
            candidate_contexts=None if choice.candidates is None else choice.candidates.contexts,
        )
        rejected = judge_events(self._accept, [shown], shown.shown_at_ms)
        if rejected:  # nothing is shown that cannot be learned
            raise RequestError(rejected[0])
        answer.impression_id, answer.session_id = shown.impression_id, shown.session_id
        if self.log_first:
            await self._deliver([shown], only_now=True)
        elif not self.queue.offer([shown]):
            self.unlogged += 1
            answer.logged = False
        return answer

    async def feedback(self, sent: list[Any]) -> Taken:
        """Take events as JSON has them; return how many, and why others were not."""
        events: list[tuple[int, Event]] = []
        errors: dict[int, str] = {}
        for number, record in enumerate(sent):
            try:
                event = self._checked(record)
            except (TypeError, ValueError, OverflowError, LookupError) as error:
                errors[number] = str(error)
            else:
                if event is not None:
                    events.append((number, event))
            if number % YIELD_EVERY == YIELD_EVERY - 1:
                await asyncio.sleep(0)
        rejected = judge_events(self._accept, [event for _, event in events], self.now_ms())
        errors |= {events[index][0]: reason for index, reason in rejected.items()}
        taken = [event for number, event in events if number not in errors]
        if taken:
            if self.log_first:
                await self._deliver(taken)
            elif not self.queue.offer(taken):
                raise NoRoom("too many events wait for Kafka; send these again later")
        reasons = [RefusedEvent(number, errors[number]) for number in sorted(errors)]
        return Taken(len(taken), len(errors), len(sent) - len(taken) - len(errors), reasons[:100])

    def _checked(self, record: Any) -> Event | None:
        if isinstance(record, dict) and "event" in record:
            return self._metarank.event_of(record)
        if isinstance(record, dict):
            kind = record.get("type")
            dated = "shown_at_ms" if kind == "impression" else "clicked_at_ms"
            if dated not in record:
                record = {**record, dated: self.now_ms()}
        return event_of(record)

    def _bucket(self, user: str) -> Bucket:
        return self.settings.buckets[self.split.bucket_of(user)]

    def _contexts(self, items: Ints, user: str) -> Floats:
        """Return the contexts of held items, for lists that another service has made."""
        held = self.models.catalogue
        if held is None:
            raise LookupError("no catalogue has come yet")
        return held.seen_by(held.user(user)).contexts(held.rows_of(items))

    async def _deliver(self, events: list[Event], *, only_now: bool = False) -> None:
        """Wait until Kafka has all of ``events``; what counts ``only_now`` is dropped if it can be, when it is late."""
        loop, left, late = asyncio.get_running_loop(), len(events), False
        everything = loop.create_future()

        def count_down() -> None:
            nonlocal left
            left -= 1
            if not left and not everything.done():
                everything.set_result(None)

        wanted = (lambda: not late) if only_now else None
        if not self.queue.offer(events, lambda: loop.call_soon_threadsafe(count_down), wanted):
            raise NoRoom("too many events wait for Kafka; nothing is shown that is not logged")
        try:
            async with asyncio.timeout(self.deadline_s):
                await everything
        except TimeoutError:
            late = True
            raise TooLate(f"Kafka did not confirm within {self.deadline_s:g} s") from None

    def status(self) -> dict[str, Any]:
        """Return what is held and what ranks, as JSON can hold it."""
        held = self.models.catalogue
        catalogue = (
            None
            if held is None
            else {
                "version": held.version,
                "items": len(held.items),
                "users": held.users,
                "recipe": list(held.recipe.parts),
                "recipe_sha256": held.recipe_sha256,
                "dim": held.dim,
                "tags": held.tags,
            }
        )
        buckets = {
            name: {"algorithm": bucket.algorithm, "version": list(self.models.in_use(name).version)}
            for name, bucket in self.settings.buckets.items()
        }
        return {"catalogue": catalogue, "buckets": buckets}

    def problem(self) -> str | None:
        """Return why lists should be asked for elsewhere; with the last good snapshot it ranks whatever is away."""
        if self.models.unanswered:
            return f"no answer yet where the snapshots of {', '.join(sorted(self.models.unanswered))} are"
        if self.models.waits_for_catalogue:
            return "no catalogue has come yet"
        full = self.queue.waiting_bytes > 0.9 * self.queue.most_bytes
        return "too many events wait for Kafka" if full else None

    def now_ms(self) -> int:
        """Return the time of an event that happens now."""
        return int(time.time() * 1000)

    def close(self) -> None:
        """Deliver what is left and let go of Kafka and of the snapshots."""
        self.queue.close()
        self.models.close()

"""Looks in, what the page shows out: one object that a reading thread feeds and that any number of pages read."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition
from typing import Any

from schemas.codec import SchemaError, decode
from schemas.records import Click, Impression
from streams.dashboard.click_delays import ClickDelays
from streams.dashboard.detail import detail
from streams.dashboard.letters import Letters
from streams.dashboard.loop import Loop
from streams.dashboard.rates import Columns, Rates
from streams.dashboard.rounding import short
from streams.dashboard.snapshots_view import Snapshots
from streams.dashboard.source import Entry, Look
from streams.dashboard.throughput import STREAMS, Throughput
from streams.settings import Settings

Rows = dict[str, list[Any]]  # a table by key, of which only changed rows travel


@dataclass(frozen=True, slots=True)
class View:
    """What one page wants to see."""

    window: str = "30m"
    bucket: str = ""


class State:
    """Everything that the page shows, as far as the log was read.

    Parameters
    ----------
    settings
        The buckets and the times of the join.
    source_name
        Where the records come from, for people.
    consumers
        Whether there is anybody whose lag could be told.
    clock
        Wall time in seconds.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        source_name: str,
        consumers: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings, self.source_name, self._clock = settings, source_name, clock
        self.consumers = consumers
        self.columns = Columns(settings.buckets)
        self.rates = Rates(settings.buckets, self.columns)
        self.snapshots = Snapshots()
        self.letters = Letters()
        self.throughput = Throughput()
        self.click_delays = ClickDelays(settings.horizon_s)
        self.loop = Loop()
        self.changed = Condition()  # held by whoever reads or writes; notified on news
        self.version = 0
        self._look = Look(at_ms=0)
        self._skipped: dict[str, int] = {}
        self._trouble: tuple[str, int] | None = None
        self._lag: dict[str, Any] | None = None
        self._lag_trouble = ""

    def add(self, look: Look) -> None:
        """Take in what a look has found."""
        with self.changed:
            self._look, self._trouble = look, None
            for topic, count in look.skipped.items():
                self._skipped[topic] = self._skipped.get(topic, 0) + count
            entries = look.entries
            shown = [record for record in map(event, entries.get("impressions", [])) if isinstance(record, Impression)]
            clicked = [record for record in map(event, entries.get("clicks", [])) if isinstance(record, Click)]
            self.click_delays.add(shown, clicked, now_ms=look.at_ms)
            self.loop.add_events(shown, clicked)
            for snapshot, at_ms in self.snapshots.add(entries.get("parameters", [])):
                self.columns.of(snapshot.bucket)
                self.loop.add_snapshot(snapshot, at_ms)
            samples = entries.get("samples", [])
            lists = self.rates.add(samples, self.snapshots.newest, now_ms=look.at_ms, also=self.loop.add_samples)
            self.letters.add(entries.get("dead-letters", []))
            self.throughput.add(look, lists=lists)
            self.loop.measure(look.at_ms)
            self._tell()

    def fail(self, words: str) -> None:
        """Note that the log cannot be read; the first time counts as the beginning of the trouble."""
        with self.changed:
            since = self._trouble[1] if self._trouble else int(self._clock() * 1000)
            self._trouble = words, since
            self._tell()

    def set_lag(self, report: dict[str, Any] | None, trouble: str = "") -> None:
        """Take a lag report, or the words for why there is none; the last report stays."""
        with self.changed:
            self._lag, self._lag_trouble = report or self._lag, trouble
            self._tell()

    def _tell(self) -> None:
        self.version += 1
        self.changed.notify_all()

    def wait(self, version: int, timeout_s: float) -> int:
        """Wait for news after ``version``, and return the version that is there."""
        with self.changed:
            self.changed.wait_for(lambda: self.version != version, timeout_s)
            return self.version

    def sections(self, view: View) -> dict[str, Any]:
        """Return the parts of the page for a view; to be called while holding ``changed``."""
        names = self.columns.names
        bucket = view.bucket if view.bucket in names else (names[0] if names else "")
        window = view.window if view.window in self.rates.timelines else "30m"
        return {
            "status": self._status(),
            "now": {"log": self._look.at_ms, "server": int(self._clock() * 1000)},
            "buckets": [self._bucket(name) for name in names],
            "ctr": self.rates.timelines[window],
            "flow": self.throughput.timelines[window],
            "rates": {name: short(self.throughput.rates.get(name)) for name in STREAMS},
            "snapshots": self._snapshot_rows(),
            "letters": self._letter_rows(),
            "lag": self._lag_groups(),
            "partitions": self._lag_rows(),
            "fresh": self.loop.rows,
            **detail(self, bucket),
        }

    def _status(self) -> dict[str, Any]:
        trouble = self._trouble
        return {
            "source": self.source_name,
            "trouble": trouble[0] if trouble else None,
            "trouble_since": trouble[1] if trouble else None,
            "behind": self._look.behind,
            "waiting": self._look.at_ms == 0,
            "missing": list(self._look.missing),
            "refused": list(self._look.refused),
            "user": self.settings.kafka_username or "",
            "skipped": dict(self._skipped),  # a copy: a page compares it with what it was sent
            "sampled": list(self._look.sampled),
            "consumers": self.consumers,
            "wait_s": self.settings.wait_s,
            "lateness_s": self.settings.lateness_s,
            "newest": self.rates.newest_ms,
            "unreadable": self.rates.unreadable + self.snapshots.unreadable,
        }

    def _bucket(self, name: str) -> list[Any]:
        bucket, snapshot = self.settings.buckets.get(name), self.snapshots.newest.get(name)
        return [name, bucket.algorithm if bucket else snapshot.algorithm if snapshot else ""]

    def _snapshot_rows(self) -> Rows:
        rows = {}
        for name, snapshot in self.snapshots.newest.items():
            moves = self.snapshots.moves[name]
            version = f"{snapshot.epoch}.{snapshot.samples_offset}"
            moved, norm = short(moves.moved[-1]), short(moves.norm[-1])
            rows[name] = [version, snapshot.published_at_ms, snapshot.rounds, norm, moved, snapshot.sha256[:12]]
        return rows

    def _letter_rows(self) -> Rows:
        return {
            str(reason.number): [reason.topic, reason.text, reason.count, reason.first_ms, reason.last_ms]
            for reason in self.letters.reasons.values()
        }

    def _lag_groups(self) -> dict[str, Any]:
        lag = self._lag
        if lag is None:
            return {"trouble": self._lag_trouble, "groups": []}
        names = ("name", "group", "verdict", "reason", "lag", "members")
        groups = [{name: group[name] for name in names} | {"lag_s": short(group["lag_s"])} for group in lag["groups"]]
        about = {"verdict": lag["verdict"], "notes": lag["notes"], "at": lag["at_ms"], "trouble": self._lag_trouble}
        return about | {"groups": groups}

    def _lag_rows(self) -> Rows:
        rows: Rows = {}
        for group in self._lag["groups"] if self._lag else ():
            for one in group["partitions"]:
                seconds = [short(one[name]) for name in ("lag_s", "rate_in", "rate_out", "catch_up_s")]
                kept = one["retention_left_s"]
                hours = None if kept is None else round(kept / 60) * 60
                transaction = one["transaction"]
                rows[f"{group['name']} {one['topic']} {one['partition']}"] = [
                    *(one["verdict"], one["lag"], *seconds, hours, one["committed"], one["end"], one["lost"]),
                    short(transaction["age_s"]) if transaction else None,
                    "; ".join(filter(None, (one["reason"], one["note"]))),
                ]
        return rows


def event(entry: Entry) -> Impression | Click | None:
    """Return an impression or a click, None for bytes that are neither: the join makes those dead letters."""
    try:
        record = decode(entry.value or b"")
    except SchemaError:
        return None
    return record if isinstance(record, Impression | Click) else None

"""A drill: for each fault a load, the strike in the middle of it, and the golden run to compare with."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from streams.drill.faults import DrillError, Fault, Outcome
from streams.drill.job.breakable import DrillServers, Workers
from streams.drill.job.load import Golden, Live, Load, draw_load

PATIENCE_S = 90.0  # after a fault; until then all must be learned, and the first load must flow
LOOK_AGAIN_S = 0.2


def run_drill(
    servers: DrillServers,
    faults: Sequence[Fault],
    folder: Path,
    *,
    load_s: float,
    rate: float,
    workers: int,
    seed: int,
    say: Callable[[str], None],
) -> Iterator[Outcome]:
    """Yield what came of each fault, one after the other.

    Before the first fault the workers prove that they learn: what is broken then was not broken by a fault.
    """
    with ExitStack() as ending:
        golden = ending.enter_context(closing(Golden(folder / "golden", servers.settings)))
        crew = ending.enter_context(closing(Workers(servers.settings, folder, each=workers)))
        live = ending.enter_context(closing(Live(servers.settings)))
        drill = Drill(servers, golden, crew, live)
        say("a load without any fault …")
        calm = drill.play(None, load_s=min(load_s, 2.0), rate=rate, seed=seed)
        if calm.differences:
            raise DrillError(f"without any fault: {calm.verdict}; see the logs in {folder}")
        for number, fault in enumerate(faults, 1):
            say(f"{number} of {len(faults)}: {fault.kind} for {fault.for_s:g} s …")
            yield drill.play(fault, load_s=load_s, rate=rate, seed=seed + number)


@dataclass(frozen=True, slots=True)
class Drill:
    """The parts of a running drill."""

    servers: DrillServers
    golden: Golden
    workers: Workers
    live: Live

    def play(self, fault: Fault | None, *, load_s: float, rate: float, seed: int) -> Outcome:
        """Return what came of one fault in the middle of a load, or of a load alone."""
        start_ms = max(int(time.time() * 1000), self.golden.now_ms + 1)
        events = draw_load(self.servers.settings, start_ms=start_ms, load_s=load_s, rate=rate, seed=seed)
        before, ended = self.golden.lists, self.workers.ended
        self.golden.learn(events)
        load = Load(self.servers.settings, events)
        load.start()
        try:
            hit, pending, written = "", 0, 0
            if fault is not None:
                self._wait(start_ms / 1000 + fault.after_s - time.time())
                written, pending = self._pending(load, before)
                hit = self._strike(fault)
            recovered_s, differences = self._settle(load, written)
        finally:
            load.end()
        struck, ended = fault or Fault("none", 0.0, 0.0), self.workers.ended - ended
        return Outcome(struck, hit, pending, recovered_s, self.golden.lists, differences, ended)

    def _pending(self, load: Load, before: int) -> tuple[int, int]:
        """Return how many lists are written, and how many of them are not learned, as soon as there are any."""
        while True:
            written, learned = before + load.written, self.live.lists()
            if learned is not None and (written > learned or not load.is_alive()):
                return written, written - learned
            self._wait(LOOK_AGAIN_S)

    def _strike(self, fault: Fault) -> str:
        """Carry a fault out from its beginning to its end, and return what it hit."""
        action, target = fault.parts
        if target in self.servers.own:
            server = self.servers.own[target]
            pid = server.pid
            getattr(server, action)()  # stop, kill or empty
            self._wait(fault.for_s)
            server.start()
        elif action == "kill":
            pid = self.workers.kill(target)
            self._wait(fault.for_s, but=target)
        else:
            pid = self.workers.freeze(target)
            self._wait(fault.for_s)
            self.workers.thaw(pid)
        return f"{target} {pid}"

    def _wait(self, seconds: float, *, but: str = "") -> None:
        until = time.monotonic() + seconds
        while (left_s := until - time.monotonic()) > 0:
            self.workers.tend(but=but)
            time.sleep(min(left_s, LOOK_AGAIN_S))

    def _settle(self, load: Load, written: int) -> tuple[float | None, tuple[str, ...]]:
        """Return when what was written before the fault was learned, and what differs once all was to be learned."""
        over, recovered_s = time.monotonic(), None
        give_up_at = over + PATIENCE_S
        differences: tuple[str, ...] = ("nothing was compared",)
        while time.monotonic() < give_up_at:
            self.workers.tend()
            if load.error is not None:
                raise DrillError(f"the load ended: {load.error!r}") from load.error
            if load.is_alive():
                give_up_at = time.monotonic() + PATIENCE_S
            else:
                differences = self.live.differences(self.golden)
            lists = self.live.lists()  # after that look, by which all may have been learned at once
            if recovered_s is None and lists is not None and lists >= written:
                recovered_s = time.monotonic() - over
            if recovered_s is not None and not differences:
                break
            time.sleep(LOOK_AGAIN_S)
        return recovered_s, differences

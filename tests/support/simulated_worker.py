"""A simulated process that runs a job: may stand still in the middle of any call, is killed, and comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenlet import greenlet
from memory_broker import MemoryBroker
from memory_cluster import MemoryCluster
from simulated_learner import SimulatedLearner

from streams.broker import JobClocks
from streams.join.job.worker import JoinJob

if TYPE_CHECKING:
    from simulation import Simulation

DAY_S = 86_400.0


class Crash(BaseException):
    """The end of a process, between two of its calls."""


class Stop:
    """What tells a job to stop; waiting lets the simulated time pass."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def is_set(self) -> bool:
        return False

    def wait(self, seconds: float) -> bool:
        self._cluster.sleep(seconds)
        return False


class Worker:
    """A process that runs a job: may wait in the middle of any call while others go on, is killed, and comes back."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self.simulation, self.name = simulation, name
        self.job: Any = None
        self.leaving = self.dying = False
        self.back_at = 0.0
        self.wall_s = simulation.rng.choice([0.0, 0.0, DAY_S, -DAY_S])
        self._turn: greenlet | None = None  # under way

    def step(self) -> None:
        """Go on with a turn, or begin one."""
        if self.simulation.cluster.now < self.back_at:
            return
        self._turn = self._turn or greenlet(self._do)
        self._turn.switch()
        if self._turn is not None and self._turn.dead:
            self._turn = None
            self.simulation.check_refusals(self.job)

    def _do(self) -> None:
        try:
            if self.job is None:
                self.job = self.start()
            elif self.leaving:
                self.job.finish()
                self.job.close()
                raise Crash
            else:
                self.job.turn()
        except Crash:
            self.gone()

    @property
    def frozen(self) -> bool:
        """Whether it waits in the middle of a call until its time has come."""
        return self._turn is not None and self.simulation.cluster.now < self.back_at

    def pause(self) -> None:
        """Wait in the middle of a call."""
        assert self._turn is not None
        self._turn.parent.switch()

    def start(self) -> Any:
        cluster = self.simulation.cluster
        broker = MemoryBroker(cluster, self.name)
        if self.name.startswith("learn"):
            return SimulatedLearner(broker)
        clocks = JobClocks(wall=lambda: cluster.now + self.wall_s, monotonic=lambda: cluster.now)
        job = JoinJob(self.simulation.settings, broker, start="earliest", clocks=clocks, stopping=Stop(cluster))
        job.begin()
        return job

    def silence(self) -> list[str]:
        """Let the group hear nothing of this process any more, and return the names that it had there."""
        alive = self.simulation.cluster.alive
        names = [member for member, client in alive.items() if client == self.name]
        for member in names:
            del alive[member]
        return names

    def kill(self) -> None:
        """End the process wherever it is."""
        turn, self._turn = self._turn, None
        if turn is not None:
            self.dying = True
            turn.throw(Crash)
            self.dying = False
        self.gone()

    def gone(self) -> None:
        self.silence()
        self.job, self.leaving = None, False
        self.back_at = self.simulation.cluster.now + self.simulation.rng.choice([0.0, 0.5, 3.0, 12.0])

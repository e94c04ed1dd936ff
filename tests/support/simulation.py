"""Seeded runs of the real jobs on a broker in memory: any of their calls may be the last, or wait for all others."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

from kafka import TopicPartition
from memory_cluster import MemoryCluster
from memory_log import MemoryLog
from simulated_learner import SimulatedLearner
from simulated_worker import Crash, Worker
from simulated_world import BUCKETS, SETTINGS, TOPICS, Producer, learned_from, letters, net, newest, snapshots

from schemas.codec import encode
from streams.join import Commit
from streams.join.job.worker import JoinJob
from streams.parameters import ROLLOUT, rollout_of

LISTS = 24
WRITING = ("send", "offsets", "commit")
CALM_ROUNDS = 400  # of every worker, within which all must be learned once nothing goes wrong any more
FAULTS = {  # how likely each is at a call or a step, in the runs that have it
    "crash": 0.02,
    "request": 0.02,
    "answer": 0.02,
    "commit": 0.2,  # a request or an answer lost, of a commit
    "freeze": 0.01,
    "switch": 0.05,
    "leave": 0.02,
    "join": 0.02,
    "away": 0.01,
    "silence": 0.01,
    "compact": 0.03,
    "retention": 0.03,
    "partition": 0.01,
    "expiry": 0.02,
    "rollout": 0.05,
    "out_of_range": 0.05,
}


STEP_FAULTS = tuple(FAULTS)[6:]


class Simulation:
    """One seeded run.

    ``struck`` counts the faults that struck while something that had been written was not learned yet.
    """

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.cluster = cluster = MemoryCluster(rng, interfere=self.interfere)
        partitions = rng.randint(1, 3)
        live = rng.random() < 0.5
        self.settings = replace(SETTINGS, timestamps="LogAppendTime" if live else "CreateTime")
        for topic in TOPICS.events:
            cluster.add_topic(topic, partitions, append_time=live)
        cluster.add_topic(TOPICS.samples, 2)
        cluster.add_topic(TOPICS.parameters, 1)
        cluster.add_topic(TOPICS.dead_letters, 1)
        cluster.add_topic(TOPICS.late_clicks, 1)
        self.producer = Producer(cluster, rng, lists=LISTS)
        self.epochs = {name: [bucket] for name, bucket in BUCKETS.items()}
        self.workers: dict[str, Worker] = {}
        for kind in ("join", "join", "learn", "learn")[rng.randint(0, 1) : rng.randint(3, 4)]:
            self.add_worker(kind)
        self.likely = {fault: chance * (rng.random() < 0.4) for fault, chance in FAULTS.items()}
        self.struck: Counter[str] = Counter()
        self.calm = False
        self.away_until = 0.0

    def add_worker(self, kind: str) -> None:
        name = f"{kind}-{len(self.workers)}"
        self.workers[name] = Worker(self, name)

    def interfere(self, client: str, name: str) -> str:
        """Decide what goes wrong with a call."""
        worker, rng, likely = self.workers[client], self.rng, self.likely
        if worker.dying:
            raise Crash
        if self.calm:
            return ""
        if self.cluster.now < self.away_until:
            self.cluster.sleep(0.5)
            return "request"
        if rng.random() < likely["crash"]:
            self.strikes(f"crash of a {client.split('-')[0]}")
            raise Crash
        if rng.random() < likely["switch"]:
            self.strikes("switch")
            worker.pause()
        if rng.random() < likely["freeze"] * (20 if name in WRITING else 1):  # zombies in a transaction are the worst
            self.strikes("freeze")
            names = worker.silence()
            worker.back_at = self.cluster.now + rng.uniform(5, 30)
            worker.pause()
            self.cluster.alive |= dict.fromkeys(names, client)  # heartbeats again; it may be out of its group by now
        if name == "commit" and rng.random() < likely["commit"]:
            lost = rng.choice(["request", "answer"])
            self.strikes(f"{lost} of a commit")
            return lost
        for lost in ("request", "answer"):
            if rng.random() < likely[lost]:
                self.strikes(lost)
                return lost
        return ""

    def check_refusals(self, job: Any) -> None:
        """Check that no partition is refused in runs in which nothing that it needs is taken away."""
        if isinstance(job, JoinJob) and not (self.likely["expiry"] or self.likely["retention"]):
            assert not job.watch.refused, job.watch.refused

    def strikes(self, fault: str) -> None:
        if self.producer.impressions and (self.producer.left or not self.complete()):
            self.struck[fault] += 1

    def complete(self) -> bool:
        """Return whether all that was shown has been learned, by the newest epochs."""
        found = newest(self.cluster)
        lists = sum(snapshot.rounds for snapshot in found.values())
        epochs = {name: snapshot.epoch for name, snapshot in found.items()}
        wanted = {name: len(epochs) for name, epochs in self.epochs.items()}
        return lists == len(self.producer.impressions) and epochs == wanted

    def step(self) -> None:
        """Let one of them do something."""
        rng = self.rng
        self.rng.choice([self.producer, *self.workers.values()]).step()
        if self.calm:
            return
        likely = self.likely
        for fault in STEP_FAULTS:
            if rng.random() < likely[fault]:
                getattr(self, fault)()

    def leave(self) -> None:
        self.strikes("leave")
        self.rng.choice([*self.workers.values()]).leaving = True

    def join(self) -> None:
        if len(self.workers) < 6:
            self.strikes("join")
            self.add_worker(self.rng.choice(["join", "learn"]))

    def away(self) -> None:
        """Let the broker be silent for a while."""
        self.strikes("away")
        self.away_until = self.cluster.now + self.rng.choice([1.0, 6.0, 15.0])

    def silence(self) -> None:
        """Let nothing be written for longer than the joins wait before they forget lists by idle time."""
        self.strikes("silence")
        for _ in range(12):
            self.round(8.0)

    def compact(self) -> None:
        self.strikes("compact")
        self.cluster.log(TopicPartition(TOPICS.parameters, 0)).compact()

    def retention(self) -> None:
        """Delete what no commit needs."""
        self.strikes("retention")
        for place, entry in self.cluster.group("glimpse-join").offsets.items():
            self.cluster.log(place).cut(entry.offset)

    def partition(self) -> None:
        """Add a partition to both logs; sessions move with that, so no list that is there is clicked on any more."""
        if len(self.cluster.topics[TOPICS.clicks].logs) < 4 and self.producer.left:
            self.strikes("partition")
            self.producer.pause()
            for topic in TOPICS.events:
                self.cluster.topics[topic].logs.append(MemoryLog())
            self.cluster.group("glimpse-join").disturb(self.cluster.now)

    def expiry(self) -> None:
        """Forget some of the group's offsets while it is empty: nothing may begin again by itself."""
        group, joins = self.cluster.group("glimpse-join"), [w for n, w in self.workers.items() if n.startswith("join")]
        if not group.offsets:
            return
        self.strikes("expiry")
        for worker in joins:
            worker.kill()
            worker.back_at = 0.0
        for _ in range(40):  # transactions and sessions end
            self.cluster.sleep(1.0)
        lost = self.rng.sample(sorted(group.offsets), self.rng.randint(1, len(group.offsets)))
        kept = {place: group.offsets.pop(place) for place in lost}
        for _ in range(self.rng.randint(10, 60)):
            self.rng.choice([self.producer, *self.workers.values()]).step()
        begun = sorted(set(group.offsets) & set(lost))
        assert not begun, f"{begun} began again without anybody having said so"
        group.offsets |= kept

    def rollout(self) -> None:
        """Let somebody roll out other parameters, maybe before the last ones have caught up."""
        name, serving = self.rng.choice([*self.epochs.items()])
        known = newest(self.cluster).get(name)
        if known is None or len(serving) > 4:
            return
        self.strikes("rollout")
        other = {"algorithm": self.rng.choice(["c2ucb", "cm-linucb"]), "ridge": self.rng.choice([None, 2.0, 3.0])}
        bucket = replace(BUCKETS[name], **other, epoch=len(serving) + 1)
        record = rollout_of(bucket, serving[known.epoch - 1], now_ms=0)
        serving.append(bucket)
        parameters = self.cluster.log(TopicPartition(TOPICS.parameters, 0))
        parameters.append(round(self.cluster.now * 1000), f"{ROLLOUT}{name}".encode(), encode(record))

    def out_of_range(self) -> None:
        """Let the broker, for once, not have the record that a learner reads next."""
        learners = [worker.job for worker in self.workers.values() if isinstance(worker.job, SimulatedLearner)]
        if learners:
            self.strikes("out_of_range")
            self.rng.choice(learners).lose_place()

    def run(self) -> None:
        """Let things go wrong for a while, then calm down; everything must be learned soon."""
        while self.producer.left:
            self.step()
        for _ in range(self.rng.randint(0, 60)):
            self.step()
        if self.settings.timestamps == "CreateTime":
            self.producer.show_everywhere()
        self.calm = True
        for worker in self.workers.values():
            worker.leaving = False
            if not worker.frozen:  # who is, wakes in its own time: others must have gone on without it
                worker.back_at = 0.0
        wanted = self.producer.wanted()
        for _ in range(CALM_ROUNDS):
            self.round(0.2)
            if self.complete() and net(self.cluster) == wanted:
                break
        for _ in range(10):  # what is left of dead workers goes
            self.round(4.0)
        rebalances = sum(group.rebalances for group in self.cluster.groups.values())
        for _ in range(12):  # nothing more may come, and nobody may be restless
            self.round(0.5)
        self.check()
        assert rebalances == sum(group.rebalances for group in self.cluster.groups.values()), "a storm of rebalances"

    def round(self, seconds: float) -> None:
        """Let every worker do something, and time pass."""
        for worker in self.workers.values():
            worker.step()
        self.cluster.sleep(seconds)

    def check(self) -> None:
        """Compare what was written with what must have been."""
        wanted, found = self.producer.wanted(), net(self.cluster)
        missing, more = wanted - found, found - wanted
        assert wanted == found, f"{len(missing)} lists are missing, {len(more)} are too many or wrong"
        learned = {name: snapshot.sha256 for name, snapshot in snapshots(self.cluster).items()}
        in_force = {name: epochs[-1] for name, epochs in self.epochs.items()}
        assert learned == learned_from(wanted, in_force), "the samples are right, the models are not"
        assert letters(self.cluster) == self.producer.poisoned
        offsets = self.cluster.group("glimpse-join").offsets
        for number in range(len(self.cluster.topics[TOPICS.impressions].logs)):
            places = [TopicPartition(topic, number) for topic in TOPICS.events]
            ledger = Commit.decode(*(offsets[place] for place in places))[0].ledger
            assert ledger.balanced, ledger
            written = tuple(self.producer.written[topic, number] for topic in TOPICS.events)
            assert (ledger.impressions, ledger.clicks) == written, (ledger, written)

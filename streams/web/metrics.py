"""Counters, gauges and histograms as Prometheus text; any thread may add while another one reads."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Family(ABC):
    """One metric with all its label values."""

    kind = "untyped"

    def __init__(self, name: str, help: str, labels: Sequence[str]) -> None:
        for word in (name, *labels):
            if not re.fullmatch(r"[a-z][a-z0-9_]*", word):
                raise ValueError(f"a metric or label is named with a-z, 0-9 and _, got {word!r}")
        self.name, self.help, self.labels = name, help, tuple(labels)
        self._lock = Lock()

    def forget(self, **labels: object) -> None:
        """Drop the values under these labels, as when a partition has gone to another worker."""
        with self._lock:
            self._drop(self._key(labels))

    def lines(self) -> Iterator[str]:
        """Yield this metric in Prometheus' text format."""
        yield f"# HELP {self.name} " + self.help.replace("\\", r"\\").replace("\n", r"\n")
        yield f"# TYPE {self.name} {self.kind}"
        with self._lock:
            samples = list(self._samples())
        for suffix, labels, value in samples:
            yield f"{self.name}{suffix}{braces(labels)} {number(value)}"

    def _key(self, labels: dict[str, object]) -> tuple[str, ...]:
        if labels.keys() != set(self.labels):
            raise ValueError(f"{self.name} has the labels {self.labels}, got {tuple(labels)}")
        return tuple(str(labels[name]) for name in self.labels)

    @abstractmethod
    def _drop(self, key: tuple[str, ...]) -> None:
        """Forget what was counted under some labels."""

    @abstractmethod
    def _samples(self) -> Iterator[tuple[str, list[tuple[str, str]], float]]:
        """Yield a suffix of the name, labels and a value for each line."""


class Gauge(Family):
    """A value that goes up and down."""

    kind = "gauge"

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:
        super().__init__(name, help, labels)
        self._values: dict[tuple[str, ...], float] = {} if labels else {(): 0.0}

    def set(self, value: float, **labels: object) -> None:
        """Replace the value."""
        with self._lock:
            self._values[self._key(labels)] = float(value)

    def add(self, amount: float = 1, **labels: object) -> None:
        """Add ``amount`` to the value."""
        key = self._key(labels)
        with self._lock:
            self._values[key] = self._values.get(key, 0.0) + amount

    def get(self, **labels: object) -> float:
        """Return the value, 0 if there was none yet."""
        with self._lock:
            return self._values.get(self._key(labels), 0.0)

    def _drop(self, key: tuple[str, ...]) -> None:
        self._values.pop(key, None)

    def _samples(self) -> Iterator[tuple[str, list[tuple[str, str]], float]]:
        for key, value in self._values.items():
            yield "", list(zip(self.labels, key, strict=True)), value


class Counter(Gauge):
    """A count that only grows; ``set`` takes over a total that is kept elsewhere."""

    kind = "counter"

    def add(self, amount: float = 1, **labels: object) -> None:
        """Add ``amount``, 0 or more."""
        if not amount >= 0:
            raise ValueError(f"{self.name} only grows, got {amount}")
        super().add(amount, **labels)


class Histogram(Family):
    """A distribution, counted at or below each bound."""

    kind = "histogram"

    def __init__(self, name: str, help: str, labels: Sequence[str] = (), bounds: Sequence[float] = SECONDS) -> None:
        super().__init__(name, help, labels)
        if "le" in labels or not bounds or list(bounds) != sorted(set(bounds)):
            raise ValueError(f"{name} needs ascending bounds and no label 'le', got {bounds} and {labels}")
        self.bounds = (*bounds, math.inf)
        self._counts: dict[tuple[str, ...], list[int]] = {} if labels else {(): [0] * len(self.bounds)}
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, value: float, **labels: object) -> None:
        """Count one value."""
        key = self._key(labels)
        with self._lock:
            counts = self._counts.setdefault(key, [0] * len(self.bounds))
            counts[bisect_left(self.bounds, value)] += 1
            self._sums[key] = self._sums.get(key, 0.0) + value

    def observe_all(self, values: NDArray[np.float64], **labels: object) -> None:
        """Count many values at once."""
        if not len(values):
            return
        found = np.bincount(np.searchsorted(self.bounds, values), minlength=len(self.bounds)).tolist()
        key = self._key(labels)
        with self._lock:
            counts = self._counts.setdefault(key, [0] * len(self.bounds))
            counts[:] = [count + more for count, more in zip(counts, found, strict=True)]
            self._sums[key] = self._sums.get(key, 0.0) + float(values.sum())

    def merge(self, other: Histogram) -> None:
        """Add what another one of the same labels and bounds has counted."""
        if (self.labels, self.bounds) != (other.labels, other.bounds):
            raise ValueError(f"{self.name} cannot take in {other.name}: other labels or bounds")
        with other._lock:
            counted = [(key, list(counts), other._sums.get(key, 0.0)) for key, counts in other._counts.items()]
        with self._lock:
            for key, found, total in counted:
                counts = self._counts.setdefault(key, [0] * len(self.bounds))
                counts[:] = [count + more for count, more in zip(counts, found, strict=True)]
                self._sums[key] = self._sums.get(key, 0.0) + total

    def _drop(self, key: tuple[str, ...]) -> None:
        self._counts.pop(key, None)
        self._sums.pop(key, None)

    def _samples(self) -> Iterator[tuple[str, list[tuple[str, str]], float]]:
        for key, counts in self._counts.items():
            labels = list(zip(self.labels, key, strict=True))
            below = 0
            for bound, count in zip(self.bounds, counts, strict=True):
                below += count
                yield "_bucket", [*labels, ("le", number(bound))], below
            yield "_sum", labels, self._sums.get(key, 0.0)
            yield "_count", labels, below


AnyFamily = TypeVar("AnyFamily", bound=Family)


class Metrics:
    """All metrics of one process.

    >>> metrics = Metrics()
    >>> dead = metrics.counter("glimpse_dead_letters_total", "Records that were refused.", labels=["topic"])
    >>> dead.add(topic="clicks")
    >>> print(metrics.render(), end="")
    # HELP glimpse_dead_letters_total Records that were refused.
    # TYPE glimpse_dead_letters_total counter
    glimpse_dead_letters_total{topic="clicks"} 1
    """

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}

    def counter(self, name: str, help: str, labels: Sequence[str] = ()) -> Counter:
        """Return a new count of something that only grows; its name ends in ``_total``."""
        if not name.endswith("_total"):
            raise ValueError(f"a counter's name must end in _total, got {name!r}")
        return self._keep(Counter(name, help, labels))

    def gauge(self, name: str, help: str, labels: Sequence[str] = ()) -> Gauge:
        """Return a new value that goes up and down."""
        return self._keep(Gauge(name, help, labels))

    def histogram(
        self, name: str, help: str, labels: Sequence[str] = (), *, bounds: Sequence[float] = SECONDS
    ) -> Histogram:
        """Return a new distribution; its bounds suit seconds unless told otherwise."""
        return self._keep(Histogram(name, help, labels, bounds))

    def render(self) -> str:
        """Return everything in Prometheus' text format, in the order of making."""
        return "".join(f"{line}\n" for family in list(self._families.values()) for line in family.lines())

    def _keep(self, family: AnyFamily) -> AnyFamily:
        if family.name in self._families:
            raise ValueError(f"there is a metric {family.name!r} already")
        self._families[family.name] = family
        return family


def braces(labels: Sequence[tuple[str, str]]) -> str:
    """Return labels as Prometheus wants them: quoted, escaped, in braces, or nothing."""
    if not labels:
        return ""
    quoted = (value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"") for _, value in labels)
    return "{" + ",".join(f'{name}="{value}"' for (name, _), value in zip(labels, quoted, strict=True)) + "}"


def number(value: float) -> str:
    """Return a number as Prometheus wants it.

    >>> [number(value) for value in (3.0, 0.25, math.inf, -math.inf, math.nan)]
    ['3', '0.25', '+Inf', '-Inf', 'NaN']
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))

"""Prometheus' text format in, families out; refuses what promtool would refuse or frown upon."""

import math
import re
from dataclasses import dataclass, field

SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)')
UNITS = ("_ms", "_millis", "_milliseconds", "_minutes", "_hours", "_kb", "_mb", "_percent")


@dataclass
class Family:
    """One metric: its type, and its samples by (suffix, labels)."""

    name: str
    kind: str
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)

    @property
    def labels(self) -> set[str]:
        """Every label that a sample has."""
        return {name for _, labels in self.samples for name, _ in labels}


def parse(text: str) -> dict[str, Family]:
    """Return the families of a page, or raise AssertionError at the first thing that is wrong."""
    families: dict[str, Family] = {}
    helped, current = "", None
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helped, _, words = line[7:].partition(" ")
            assert words.strip(), f"{helped} is not explained"
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            assert name == helped, f"{name} has no HELP right before its TYPE"
            assert name not in families, f"{name} comes twice"
            current = families[name] = Family(name, kind)
        else:
            assert current is not None
            _add(current, line)
    for family in families.values():
        _lint(family)
    return families


def _add(family: Family, line: str) -> None:
    found = SAMPLE.match(line)
    assert found, line
    name, inside, value = found.groups()
    assert name.startswith(family.name), f"{name} stands under {family.name}"
    labels = tuple(LABEL.findall(inside or ""))
    assert ",".join(f'{key}="{text}"' for key, text in labels) == (inside or ""), line
    suffix = name.removeprefix(family.name)
    assert suffix in (("_bucket", "_sum", "_count") if family.kind == "histogram" else ("",)), line
    assert (suffix, labels) not in family.samples, f"twice: {line}"
    family.samples[suffix, labels] = float(value.replace("Inf", "inf"))


def _lint(family: Family) -> None:
    name = family.name
    assert re.fullmatch(r"glimpse_[a-z][a-z0-9_]*", name), name
    assert family.kind in ("counter", "gauge", "histogram"), name
    assert (family.kind == "counter") == name.endswith("_total"), f"{name} is a {family.kind}"
    assert not name.endswith(UNITS), f"{name}: base units are seconds and bytes"
    assert not name.endswith(("_bucket", "_sum", "_count")), name
    assert len(family.labels - {"le"}) <= 3, f"{name} has the labels {family.labels}"
    for (suffix, labels), value in family.samples.items():
        assert family.kind != "counter" or value >= 0, (name, labels, value)
        if suffix == "_count":
            bounds = {
                float(dict(other)["le"].replace("Inf", "inf")): count
                for (kind, other), count in family.samples.items()
                if kind == "_bucket" and tuple(pair for pair in other if pair[0] != "le") == labels
            }
            assert list(bounds.values()) == sorted(bounds.values()), f"{name} is not cumulative"
            assert bounds[math.inf] == value, name
            assert ("_sum", labels) in family.samples, name

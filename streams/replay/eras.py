"""The rules that live events were judged by, as they were logged: a replay of raw events judges by the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from schemas.codec import SchemaError, decode
from schemas.records import Rules
from streams.embedded import logged_rules
from streams.events import Acceptance
from streams.join import Commit, JoinRules, LogPart, RuleEra
from streams.logs import ArchiveSource, LogSource
from streams.settings import Settings


@dataclass(frozen=True, slots=True)
class LoggedEras:
    """The eras of each partition, and the rules that they name; none where the settings' hold for all events."""

    starts: Mapping[int, Sequence[tuple[int, int, str]]] = field(default_factory=dict)  # impressions, clicks, hash
    rules: Mapping[str, bytes] = field(default_factory=dict)

    def begin(self, partition: int, *, impressions: int, clicks: int) -> Commit:
        """Return where a join of one partition begins that knows the eras ahead of it."""
        eras = self.starts.get(partition, ())
        return Commit(
            LogPart.beginning(impressions, [RuleEra(start, name) for start, _, name in eras]),
            LogPart.beginning(clicks, [RuleEra(start, name) for _, start, name in eras]),
            impressions,
        )


def rules_in_force(settings: Settings) -> JoinRules:
    """Return the rules that the settings ask for."""
    accept = Acceptance(settings.buckets, future_ms=int(settings.future_s * 1000))
    return JoinRules(accept, horizon_ms=int(settings.wait_s * 1000) + int(settings.lateness_s * 1000))


def eras_of(source: LogSource, settings: Settings, notes: list[str]) -> LoggedEras:
    """Return by which rules the events of a source were judged live, if the settings still ask for the last of them.

    With other settings a replay asks what would have been: then all events are judged by them.
    """
    topic_id, found = source.topic_id("impressions"), dict[int, dict[tuple[int, int], Rules]]()
    for rules in _logged(source):
        if rules.topic_id in ("", topic_id):
            found.setdefault(rules.partition, {})[rules.impressions_from, rules.clicks_from] = rules
    eras = {number: [of[start] for start in sorted(of)] for number, of in found.items()}
    if any(of[-1].hash != rules_in_force(settings).hash for of in eras.values()):
        notes.append("these settings judge events by other rules than the join did last: they hold for all events here")
        return LoggedEras()
    starts = {
        number: [(rules.impressions_from, rules.clicks_from, rules.hash) for rules in of] for number, of in eras.items()
    }
    return LoggedEras(starts, {rules.hash: rules.rules for of in eras.values() for rules in of})


def _logged(source: LogSource) -> Iterable[Rules]:
    if isinstance(source, ArchiveSource):
        yield from logged_rules(source.archive)
    yield from _on_parameters(source)


def _on_parameters(source: LogSource) -> Iterator[Rules]:
    if not source.has("parameters"):
        return
    for partition in range(source.partitions("parameters")):
        for block in source.read("parameters", partition, *source.bounds("parameters", partition)):
            for record in block.records():
                if (record.key or b"").startswith(b"@rules-"):
                    try:
                        yield decode(record.value or b"", Rules)
                    except SchemaError:
                        continue  # somebody else's bytes

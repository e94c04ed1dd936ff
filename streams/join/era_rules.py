"""The eras of a join that goes on from a commit: rules that held before, and a new era if the settings are others."""

from __future__ import annotations

from collections.abc import Mapping

from schemas.json_text import parse_json
from schemas.records import Rules
from streams.join.commit import Commit
from streams.join.first_commit import first_hash
from streams.join.log_part import BadCommit, LogPart, RuleEra, rules_hash
from streams.join.rules import FIRST, MOST_ERAS, JoinRules, LogEras


class EraRules:
    """The rules of both logs by offset, and the records that must be written with the first commit of a new era."""

    def __init__(self, impressions: LogEras, clicks: LogEras, new: list[Rules]) -> None:
        self.impressions, self.clicks, self._new = impressions, clicks, new

    @classmethod
    def of(cls, resume: Commit, now: JoinRules, known: Mapping[str, bytes], partition: int) -> EraRules:
        """Return the eras of a join that goes on from ``resume`` by the rules of ``now``."""
        if resume.problem:
            raise BadCommit(resume.problem)
        parts = _eras(resume.impressions, now), _eras(resume.clicks, now)
        contents = {**known, **resume.rules}
        named = {era.rules for part in parts for era in part} & contents.keys()
        rules = {name: _read(name, contents[name], now) for name in named} | {now.hash: now}
        if _is_new(resume, now) and max(map(len, parts)) > MOST_ERAS:
            raise BadCommit(
                f"the settings changed {MOST_ERAS} times within three horizons, and a commit can name no more; go back "
                "to the last ones, and change them later"
            )
        both = LogEras.of(parts[0], rules), LogEras.of(parts[1], rules)
        fresh = [*resume.rules, *([now.hash] if _is_new(resume, now) else [])]
        new = [_record(rules[name], name, parts, partition) for name in fresh]
        return cls(*both, new)

    def unwritten(self) -> list[Rules]:
        """Return what the next checkpoint must write, once."""
        new, self._new = self._new, []
        return new


def _read(name: str, content: bytes, now: JoinRules) -> JoinRules:
    if rules_hash(content) != name:
        raise BadCommit(f"the rules that are called {name} have the hash {rules_hash(content)}: they were changed")
    rules = parse_json(content)
    if "hash" not in rules:
        return JoinRules.read(content)
    if rules["hash"] != first_hash(now.accept.as_dict()):  # the first version had no room for them in its commit
        raise BadCommit(
            "the settings are not those of the first version's last commit, which does not say what they were; start "
            "once with the old ones"
        )
    return JoinRules(now.accept, horizon_ms=rules["horizon_ms"], judging=FIRST)


def _eras(part: LogPart, now: JoinRules) -> list[RuleEra]:
    if part.eras and part.eras[-1].rules == now.hash:
        return part.eras
    return [*part.eras, RuleEra(part.processed, now.hash)]


def _is_new(resume: Commit, now: JoinRules) -> bool:
    return any(not part.eras or part.eras[-1].rules != now.hash for part in (resume.impressions, resume.clicks))


def _record(rules: JoinRules, name: str, parts: tuple[list[RuleEra], list[RuleEra]], partition: int) -> Rules:
    starts = [max((era.offset for era in eras if era.rules == name), default=0) for eras in parts]
    return Rules(rules.hash, rules.content, "", partition, *starts)

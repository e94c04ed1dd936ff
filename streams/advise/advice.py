"""All advice together, in words: what was found, why it matters, and the command."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from rich.console import Group, RenderableType
from rich.text import Text

from streams.advise.browsing import FRESH, IN_FORCE, WindowFit
from streams.advise.delays import DelayAdvice
from streams.advise.rounding import WORTH as ROUNDING_WORTH
from streams.advise.rounding import RoundingAdvice
from streams.charts import terminal_table

LOST_WORTH = 0.005  # a share of clicks lost that is worth a longer horizon
WAIT_WORTH = 0.5  # a wait that could be so much shorter is worth a change


@dataclass(frozen=True, slots=True)
class BrowsingAdvice:
    """How a bucket's users browse, by the newest window."""

    newest: WindowFit | None  # None: too few lists
    changed_at: int | None  # after so many of the lists that were read


@dataclass(frozen=True, slots=True)
class Advice:
    """What to change, of waits, tables and scales."""

    where: str
    wait_s: float
    lateness_s: float
    delays: DelayAdvice | None
    browsing: dict[str, BrowsingAdvice] = field(default_factory=dict)
    rounding: dict[str, RoundingAdvice] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: whether to act, what and why, and the command."""

    act: bool
    text: str
    command: str = ""


def lines_of(advice: Advice) -> list[Finding]:
    """Return the findings, those to act on first."""
    findings = [_delays(advice)]
    findings += [_browsing(name, browsing, advice.where) for name, browsing in advice.browsing.items()]
    findings += [_rounding(name, rounding, advice.where) for name, rounding in advice.rounding.items()]
    return sorted(findings, key=lambda line: not line.act)


def _delays(advice: Advice) -> Finding:
    waits = advice.delays
    if waits is None:
        return Finding(False, "waits: too few clicks of lists that are old enough; nothing is advised")
    now = f"wait_s = {advice.wait_s:g} and lateness_s = {advice.lateness_s:g}"
    says = (
        f"waits: with {now}, {waits.now.corrected:.2%} of {waits.clicks:,} clicks arrived after their list had closed "
        f"and {waits.now.lost:.2%} were lost"
    )
    better, advised = f"wait_s = {waits.wait_s:g} and lateness_s = {waits.lateness_s:g}", waits.advised
    lost = waits.now.lost > LOST_WORTH and advised.lost < waits.now.lost
    slow = waits.wait_s < WAIT_WORTH * advice.wait_s
    if not (lost or slow):
        return Finding(False, f"{says}; that is well ({better} would correct {advised.corrected:.2%})")
    why = "fewer clicks are lost" if lost else f"lists are learned {advice.wait_s - waits.wait_s:.0f} s sooner"
    then = f"{advised.corrected:.2%} would be corrections and {advised.lost:.2%} lost: {why}"
    command = (
        f"in glimpse.toml: wait_s = {waits.wait_s:g}, lateness_s = {waits.lateness_s:g}; then restart glimpse join"
    )
    return Finding(True, f"{says}. With {better}, {then}", command)


def _browsing(bucket: str, advice: BrowsingAdvice, where: str) -> Finding:
    newest = advice.newest
    if newest is None:
        return Finding(False, f"browsing of {bucket}: too few lists to judge its table")
    told = newest.perplexity
    says = (
        f"browsing of {bucket}: the {IN_FORCE} has a conditional perplexity of {told[IN_FORCE]:.4f}, a {FRESH} "
        f"{told[FRESH]:.4f}, the best model ({newest.best}) {told[newest.best]:.4f}"
    )
    if advice.changed_at is None:
        return Finding(False, f"{says}; the table fits")
    says += f": users have begun to browse differently, noticed after {advice.changed_at:,} of the lists read. Rows "
    says += "are weighed by chances that no longer hold, which bends θ"
    command = f"glimpse fit {where} --bucket {bucket} --from TIME --out table.json; then a new epoch with that table"
    return Finding(True, says, command)


def _rounding(bucket: str, advice: RoundingAdvice, where: str) -> Finding:
    says = (
        f"rounding of {bucket}: with context_scale = {advice.context_scale:g} and features up to {advice.largest:.3g}, "
        f"{advice.relative:.1e} of a context's length is lost to the grid"
    )
    if not advice.worth:
        return Finding(False, f"{says}; that is well below {ROUNDING_WORTH}")
    return Finding(
        True,
        f"{says}. With context_scale = {advice.advised_scale:g} it would be about "
        f"{advice.relative * advice.advised_scale / advice.context_scale:.1e}",
        f"in glimpse.toml, buckets.{bucket}: context_scale = {advice.advised_scale:g} and a higher epoch; "
        f"then glimpse replay {where}",
    )


def advice_json(advice: Advice) -> str:
    """Return everything as one line of JSON."""
    return json.dumps(asdict(advice) | {"lines": [asdict(line) for line in lines_of(advice)]}, allow_nan=False)


def advice_view(advice: Advice) -> RenderableType:
    """Return the findings with their commands, and what each wait would mean."""
    parts: list[RenderableType] = []
    for line in lines_of(advice):
        parts.append(Text(f"{'→' if line.act else '✓'} {line.text}", style="bold" if line.act else ""))
        if line.command:
            parts.append(Text(f"  {line.command}", style="cyan"))
    if advice.delays is not None:
        rows = [[f"{row.wait_s:g} s", f"{row.corrected:.2%}", f"{row.lost:.2%}"] for row in advice.delays.rows]
        head = ("wait_s = added staleness", "clicks that correct", "clicks lost")
        parts.append(terminal_table(head, rows, title=f"each wait_s, with lateness_s = {advice.lateness_s:g}"))
    return Group(*parts, *(Text(text, style="dim") for text in advice.notes))

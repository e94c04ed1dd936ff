"""All advice together, in words: what was found, why it matters, and the command."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from rich.console import Group, RenderableType
from rich.text import Text

from streams.advise.browsing import FRESH, IN_FORCE, WindowFit
from streams.advise.delays import DelayAdvice
from streams.advise.rounding import WORTH as ROUNDING_WORTH
from streams.charts import terminal_table

LOST_WORTH = 0.005  # a share of clicks lost that is worth a longer horizon
WAIT_WORTH = 0.5  # a wait that could be so much shorter is worth a change


@dataclass(frozen=True, slots=True)
class BrowsingAdvice:
    """How a bucket's users browse, by the newest window."""

    newest: WindowFit | None  # None: too few lists
    changed_at: int | None  # after so many of the lists that were read


@dataclass(frozen=True, slots=True)
class RoundingAdvice:
    """What a bucket's contexts lose."""

    context_scale: float
    largest: float
    relative: float
    advised_scale: float
    worth: bool


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
    found = [_delays(advice)]
    found += [_browsing(name, one, advice.where) for name, one in advice.browsing.items()]
    found += [_rounding(name, one, advice.where) for name, one in advice.rounding.items()]
    return sorted(found, key=lambda line: not line.act)


def _delays(advice: Advice) -> Finding:
    found = advice.delays
    if found is None:
        return Finding(False, "waits: too few clicks of lists that are old enough; nothing is advised")
    now = f"wait_s = {advice.wait_s:g} and lateness_s = {advice.lateness_s:g}"
    says = (
        f"waits: with {now}, {found.now.corrected:.2%} of {found.clicks:,} clicks came after their list had closed and "
        f"{found.now.lost:.2%} were lost"
    )
    better = f"wait_s = {found.wait_s:g} and lateness_s = {found.lateness_s:g}"
    lost = found.now.lost > LOST_WORTH and found.advised.lost < found.now.lost
    slow = found.wait_s < WAIT_WORTH * advice.wait_s
    if not (lost or slow):
        return Finding(False, f"{says}; that is well ({better} would correct {found.advised.corrected:.2%})")
    why = "fewer clicks are lost" if lost else f"lists are learned {advice.wait_s - found.wait_s:.0f} s sooner"
    return Finding(
        True,
        f"{says}. With {better}, {found.advised.corrected:.2%} would be corrections and {found.advised.lost:.2%} lost: "
        f"{why}",
        f"in glimpse.toml: wait_s = {found.wait_s:g}, lateness_s = {found.lateness_s:g}; then restart glimpse join",
    )


def _browsing(bucket: str, found: BrowsingAdvice, where: str) -> Finding:
    newest = found.newest
    if newest is None:
        return Finding(False, f"browsing of {bucket}: too few lists to judge its table")
    told = newest.perplexity
    says = (
        f"browsing of {bucket}: the {IN_FORCE} has a conditional perplexity of {told[IN_FORCE]:.4f}, a {FRESH} "
        f"{told[FRESH]:.4f}, the best model ({newest.best}) {told[newest.best]:.4f}"
    )
    if found.changed_at is None:
        return Finding(False, f"{says}; the table fits")
    return Finding(
        True,
        f"{says}: users have begun to browse differently, noticed after {found.changed_at:,} of the lists read. Rows "
        "are weighed by chances that no longer hold, which bends θ",
        f"glimpse fit {where} --bucket {bucket} --from TIME --out table.json; then a new epoch with that table",
    )


def _rounding(bucket: str, found: RoundingAdvice, where: str) -> Finding:
    says = (
        f"rounding of {bucket}: with context_scale = {found.context_scale:g} and features up to {found.largest:.3g}, "
        f"{found.relative:.1e} of a context's length is lost to the grid"
    )
    if not found.worth:
        return Finding(False, f"{says}; that is well below {ROUNDING_WORTH}")
    return Finding(
        True,
        f"{says}. With context_scale = {found.advised_scale:g} it would be about "
        f"{found.relative * found.advised_scale / found.context_scale:.1e}",
        f"in glimpse.toml, buckets.{bucket}: context_scale = {found.advised_scale:g} and a higher epoch; "
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

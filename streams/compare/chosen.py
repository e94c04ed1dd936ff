"""What the settings say of a comparison: the shares of the split, and how long lists may change."""

from __future__ import annotations

from dataclasses import replace

from streams.compare.columns import ListSums
from streams.compare.comparison import chosen_split
from streams.compare.look import CompareChoice
from streams.settings import Settings
from streams.split import Split


def choice_of(settings: Settings, choice: CompareChoice, sums: ListSums) -> CompareChoice:
    """Return the choice with what the settings know: H, and the shares if users were split as they are split now."""
    choice = replace(choice, correctable_s=settings.horizon_s)
    if choice.shares or not settings.buckets or not sums.arms:
        return choice
    split = Split.of(settings)
    if chosen_split(sums, choice) not in ("", split.version):
        return choice
    control = choice.control or settings.split.holdout_bucket or next(iter(settings.buckets))
    namespace = settings.buckets[control].namespace if control in settings.buckets else ""
    return replace(choice, shares=split.weights.get(namespace, {}))

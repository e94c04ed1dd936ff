"""What the settings say of a comparison: the shares of the split, and how long lists may change."""

from __future__ import annotations

from dataclasses import replace

from streams.compare.columns import ListSums
from streams.compare.comparison import chosen_split
from streams.compare.look import CompareChoice
from streams.settings import Settings
from streams.split import Split


def choice_of(settings: Settings, choice: CompareChoice, sums: ListSums) -> CompareChoice:
    """Return the choice with what the settings know: H, a control, and the shares if users were split as they are now.

    The control is the holdout's bucket, else the first bucket of the settings that has lists.
    """
    choice = replace(choice, correctable_s=settings.horizon_s)
    if not settings.buckets or not sums.arms:
        return choice
    version = chosen_split(sums, choice)
    there = {arm.bucket for arm in sums.arms if arm.split == version}
    first = [name for name in (settings.split.holdout_bucket, *settings.buckets) if name in there]
    control = choice.control or next(iter(first), None)
    choice = replace(choice, control=control)
    split = Split.of(settings)
    if choice.shares or version not in ("", split.version) or control is None or control not in settings.buckets:
        return choice
    return replace(choice, shares=split.weights.get(settings.buckets[control].namespace, {}))

"""Other parameters for a bucket that serves: what would change, and what they would do."""

from streams.rollout.effect import Effect, ShownLists, effect_of
from streams.rollout.plan import RolloutError, RolloutPlan, Serving, back, onward

__all__ = ["Effect", "RolloutError", "RolloutPlan", "Serving", "ShownLists", "back", "effect_of", "onward"]

"""The learner alone, without any server: how users browse, from a log; what they like, from their clicks.

    python examples/bandit.py

Two bandits serve the same simulated users, who look at the top of a list more than at its end. One takes every row
without a click for a dislike; the other weighs each row by the chance that it was looked at.
"""

import numpy as np

from learner import C2Ucb, Samples, UbmLinUcb
from learner.click_models import UBM
from learner.evaluate import ctr_set, ctr_sum
from learner.simulate import World, browsing_table

POSITIONS, DIM, ROUNDS = 10, 8, 1500


def main() -> None:
    """Fit a table, play both bandits, and print what each earned and learned."""
    random = np.random.default_rng(7)
    world = World.random(random, dim=DIM, examination=browsing_table(POSITIONS), items=400, candidates=60)

    # 1. How users browse: lists that were shown in random order, and what was clicked in them.
    items, contexts = world.visits(random, lists=20_000)
    items, contexts = items[:, :POSITIONS], contexts[:, :POSITIONS]
    browsing = UBM(iterations=50).fit(items, world.users.browse(contexts, random))
    # Clicks tell the chances only up to a common factor: let every first row be looked at.
    table = np.minimum(browsing.examination / browsing.examination[0, 0], 1.0)
    print(f"without a click above it, position 5 is looked at in {table[4, 0]:.0%} of the lists")

    # 2. Two bandits.
    bandits = {
        "c2ucb": C2Ucb(dim=DIM, positions=POSITIONS, alpha=0.3),
        "ubm-linucb": UbmLinUcb(dim=DIM, examination=table, alpha=0.3, ridge="safe"),
    }

    # 3. The loop: rank, show, learn. In production a list is learned when its clicks are in; here at once.
    for name, bandit in bandits.items():
        luck, earned, lost = np.random.default_rng(1), [], 0.0
        for _ in range(ROUNDS):
            _, candidates = world.visit(luck)
            shown = candidates[bandit.rank(candidates, size=POSITIONS)][None]
            clicks = world.users.browse(shown, luck)
            bandit.learn(Samples.from_clicks(shown, clicks))
            earned.append(clicks[0])
            best = candidates[world.users.best_rows(candidates, POSITIONS)]
            lost += float(world.users.expected_reward(best) - world.users.expected_reward(shown[0]))
        taste = float(np.linalg.norm(bandit.theta - world.users.taste))
        print(f"{name:<11} CTR_sum {ctr_sum(earned):.3f} clicks a list, CTR_set {ctr_set(earned):.3f} of lists clicked")
        print(f"{'':<11} regret {lost:.1f} clicked lists, distance from the users' taste {taste:.3f}")


if __name__ == "__main__":
    main()

"""Simulated users in, a table of the five bandits' click rates out: the closed loop in one process, no server."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from learner import C2Ucb, CmLinUcb, DcmLinUcb, PbmUcb, UbmLinUcb
from learner.bandit import Bandit
from learner.simulate import Run, World, browsing_table, play
from learner.theorem import regret_bound

BASELINE = "c2ucb"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one bucket did."""

    name: str
    run: Run
    distance: float | None  # ‖θ − θ*‖; None where there is no θ to compare


def models(dim: int, positions: int, alpha: float) -> dict[str, Bandit | None]:
    """Return one fresh model per bucket, all with the same α; None stands for random lists."""
    table = browsing_table(positions)
    return {
        "random": None,
        "pbm-ucb": PbmUcb(examination=table[:, 0], alpha=alpha),
        "cm-linucb": CmLinUcb(dim, positions=positions, alpha=alpha),
        "c2ucb": C2Ucb(dim, positions=positions, alpha=alpha),
        "dcm-linucb": DcmLinUcb(dim, positions=positions, alpha=alpha),
        "ubm-linucb": UbmLinUcb(dim, examination=table, alpha=alpha),
    }


def outcomes(*, rounds: int, seed: int, dim: int, positions: int, alpha: float, console: Console) -> list[Outcome]:
    """Return how every bucket did among the same users, with a progress bar on the way."""
    world = World.random(np.random.default_rng(seed), dim=dim, examination=browsing_table(positions))
    done = []
    columns = (TextColumn("{task.description:>10}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        for name, model in models(dim, positions, alpha).items():
            task = progress.add_task(name, total=rounds)
            random = np.random.default_rng(seed + 1)  # every bucket meets the same users
            run = play(model, world, rounds=rounds, random=random, on_round=partial(progress.advance, task))
            linear = model is not None and model.dim > 0
            distance = float(np.linalg.norm(model.theta - world.users.taste)) if model and linear else None
            done.append(Outcome(name, run, distance))
    return done


def table_of(done: list[Outcome]) -> Table:
    """Return the outcomes as a table, lifts of CTR_sum against C²UCB."""
    table = Table(title="Each bucket learned only from its own users' clicks")
    table.add_column("bucket")
    for heading in ("CTR_sum", "CTR_set", "lift", "regret", "‖θ − θ*‖"):
        table.add_column(heading, justify="right")
    baseline = next(outcome.run.ctr_sum for outcome in done if outcome.name == BASELINE)
    for outcome in done:
        lift = "" if outcome.name == BASELINE else f"{outcome.run.ctr_sum / baseline - 1:+.1%}"
        distance = "–" if outcome.distance is None else f"{outcome.distance:.3f}"
        run = outcome.run
        cells = [f"{run.ctr_sum:.3f}", f"{run.ctr_set:.3f}", lift, f"{run.regret.sum():.0f}", distance]
        table.add_row(outcome.name, *cells)
    return table


def run(*, rounds: int = 8000, seed: int = 1, dim: int = 10, positions: int = 10, alpha: float = 0.3) -> None:
    """Play the closed loop of every bucket and print what each earned."""
    console = Console()
    console.print(
        f"{rounds:,} users a bucket; lists of {positions} out of 100 candidates; {dim} features; α = {alpha}.\n"
        "Deep positions are looked at less often, those behind a click more often.\n"
    )
    done = outcomes(rounds=rounds, seed=seed, dim=dim, positions=positions, alpha=alpha, console=console)
    console.print(table_of(done))
    model = UbmLinUcb(dim, examination=browsing_table(positions))
    bound = regret_bound(rounds, dim=dim, positions=positions, phi=model.phi, ridge=model.ridge, beta=model.beta)
    console.print(
        "CTR_sum: clicks a list. CTR_set: share of lists with a click.\n"
        "Regret: clicked lists lost by not knowing the users' true taste θ*;\n"
        f"with its own α the theorem promises {bound:,.0f} at most."
    )

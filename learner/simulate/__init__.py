"""Users with a known taste: how they browse, what they are shown, what a bandit earns among them."""

from learner.simulate.browse import Answer, answer, expected_clicks
from learner.simulate.events import Clicked, Shown, stream
from learner.simulate.play import Run, play
from learner.simulate.traffic import Traffic, traffic
from learner.simulate.users import Users, browsing_table
from learner.simulate.world import World, unit

__all__ = [
    "Answer",
    "Clicked",
    "Run",
    "Shown",
    "Traffic",
    "Users",
    "World",
    "answer",
    "browsing_table",
    "expected_clicks",
    "play",
    "stream",
    "traffic",
    "unit",
]

"""Users with a known taste: how they browse, and what they are shown."""

from learner.simulate.browse import Answer, answer, expected_clicks
from learner.simulate.users import Users, browsing_table
from learner.simulate.world import World, unit

__all__ = ["Answer", "Users", "World", "answer", "browsing_table", "expected_clicks", "unit"]

"""Users with a known taste: how they browse, and what they are shown."""

from learner.simulate.users import Answer, Users, World, answer, browsing_table, distinct, expected_clicks, unit

__all__ = ["Answer", "Users", "World", "answer", "browsing_table", "distinct", "expected_clicks", "unit"]

"""The paper's experiments, and those that explain it: played, and reported as tables and figures."""

from streams.experiments.day_one_report import DayOneRow, day_one_chart, day_one_grid, day_one_table

__all__ = ["DayOneRow", "day_one_chart", "day_one_grid", "day_one_table"]

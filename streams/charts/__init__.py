"""Pictures and pages that need no server and ask nobody: curves, dots, heat maps, tables."""

from streams.charts.dot_chart import dot_chart
from streams.charts.heat_map import svg_map, terminal_map
from streams.charts.line_chart import Line, line_chart
from streams.charts.page import COLOURS, page, picture
from streams.charts.tables import html_table, markdown_table, terminal_table

__all__ = [
    "COLOURS",
    "Line",
    "dot_chart",
    "html_table",
    "line_chart",
    "markdown_table",
    "page",
    "picture",
    "svg_map",
    "terminal_map",
    "terminal_table",
]

"""Pictures and pages that need no server and ask nobody: curves, dots, heat maps, tables."""

from streams.charts.grid import Cell, grid
from streams.charts.heat_map import svg_map, terminal_map
from streams.charts.line_chart import Line, dot_chart, line_chart
from streams.charts.page import COLOURS, html_table, markdown_table, page, terminal_table
from streams.charts.scatter import scatter

__all__ = [
    "COLOURS",
    "Cell",
    "Line",
    "dot_chart",
    "grid",
    "html_table",
    "line_chart",
    "markdown_table",
    "page",
    "scatter",
    "svg_map",
    "terminal_map",
    "terminal_table",
]

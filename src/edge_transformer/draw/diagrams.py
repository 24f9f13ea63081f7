"""Arc diagrams of sentence graphs and dependency trees: as text for a terminal, and as SVG."""

from .arcs import ArcDiagram, diagram_of_graph, diagram_of_tree, visible
from .svg import draw_svg
from .text import draw_text

__all__ = ["ArcDiagram", "diagram_of_graph", "diagram_of_tree", "draw_svg", "draw_text", "visible"]

"""From declarations to an ordered graph."""

from headwater.graph.resolve import Edge, Graph, resolve

__all__ = ["Edge", "Graph", "resolve"]

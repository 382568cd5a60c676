"""The graph as text and as Mermaid."""

from __future__ import annotations

from headwater.definitions import Definition, Lookup, Model, Source, Table, View, kind_of
from headwater.graph.resolve import Graph


def as_text(graph: Graph) -> str:
    """One line per definition: its kind, its name, what it reads or where it is from."""
    width = max(len(name) for name in graph.definitions.by_name)
    lines = []
    for name, definition in graph.definitions.by_name.items():
        lines.append(f"{kind_of(definition):<7} {name:<{width}}  {_detail(graph, definition)}")
    return "\n".join(lines)


def as_mermaid(graph: Graph) -> str:
    """A flowchart that GitHub and most wikis draw."""
    lines = ["flowchart LR"]
    for name, definition in graph.definitions.by_name.items():
        left, right = _shape(definition)
        lines.append(f'  {name}{left}"{name}"{right}')
    for edges in graph.edges.values():
        lines += [f"  {edge.read} --> {edge.reader}" for edge in edges]
    return "\n".join(lines)


def _detail(graph: Graph, definition: Definition) -> str:
    if isinstance(definition, Source | Lookup):
        return f"from {definition.connector.describe()}"
    if isinstance(definition, Model):
        return _training(definition)
    reads = ", ".join(edge.read for edge in graph.inputs(definition.name)) or "nothing"
    if isinstance(definition, Table):
        sink = definition.into.describe() if definition.into else "managed Delta table"
        return f"reads {reads}; into {sink}"
    return f"reads {reads}"


def _training(model: Model) -> str:
    when = f"every {model.every}" if model.every else "when asked"
    judged = ", published where better" if model.evaluate else ""
    return f"trained on {model.trained_on} {when}{judged}"


def _shape(definition: Definition) -> tuple[str, str]:
    if isinstance(definition, Source):
        return "([", "])"
    if isinstance(definition, Lookup):
        return "[/", "/]"
    if isinstance(definition, Model):
        return "{{", "}}"
    if isinstance(definition, View):
        return "(", ")"
    return "[(", ")]"

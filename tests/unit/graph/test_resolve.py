import pytest

from headwater import Pipeline
from headwater.connectors import rate
from headwater.errors import CyclicReads, UnknownInput
from headwater.graph import resolve
from headwater.graph.render import as_mermaid, as_text


def pipeline() -> Pipeline:
    app = Pipeline("app")
    app.source("ticks", rate())

    @app.view
    def even(ticks): ...  # type: ignore[no-untyped-def]

    @app.table
    def stored(even): ...  # type: ignore[no-untyped-def]

    app.sql("counted", "select count(*) as n from stored")
    return app


def test_a_parameter_name_is_the_dependency() -> None:
    graph = resolve(pipeline().definitions())
    assert [edge.read for edge in graph.inputs("stored")] == ["even"]
    assert [edge.read for edge in graph.inputs("counted")] == ["stored"]


def test_a_definition_comes_after_what_it_reads() -> None:
    assert resolve(pipeline().definitions()).order == ("even", "stored", "counted")


def test_views_are_seen_through_to_the_sources() -> None:
    graph = resolve(pipeline().definitions())
    assert [source.name for source in graph.sources_of("stored")] == ["ticks"]
    assert graph.sources_of("counted") == []


def test_an_unknown_name_lists_the_nearest() -> None:
    app = pipeline()

    @app.table
    def wrong(ticsk): ...  # type: ignore[no-untyped-def]

    with pytest.raises(UnknownInput) as caught:
        resolve(app.definitions())
    assert caught.value.remedy == "did you mean 'ticks'?"
    assert caught.value.where is not None


def test_reads_in_a_circle_are_refused_with_the_circle() -> None:
    app = Pipeline("app")
    app.sql("hen", "select * from egg")
    app.sql("egg", "select * from hen")
    with pytest.raises(CyclicReads) as caught:
        resolve(app.definitions())
    assert "hen -> egg -> hen" in (caught.value.found or "")


def test_text_and_mermaid_show_every_definition_and_edge() -> None:
    graph = resolve(pipeline().definitions())
    assert "table   counted  reads stored" in as_text(graph)
    mermaid = as_mermaid(graph)
    assert "  ticks --> even" in mermaid
    assert '  stored[("stored")]' in mermaid


def learning() -> Pipeline:
    app = pipeline()

    @app.model(trained_on="stored", every="5 minutes", schema="n bigint")
    def top(stored): ...  # type: ignore[no-untyped-def]

    app.sql("judged", "select * from stored join top")
    return app


def test_a_model_is_read_like_a_lookup_and_reads_its_table() -> None:
    graph = resolve(learning().definitions())
    assert [edge.read for edge in graph.inputs("top")] == ["stored"]
    assert {d.name for d in graph.reads_directly("judged")} == {"stored", "top"}
    assert graph.order == ("even", "stored", "counted", "judged")
    assert graph.is_read("stored")


def test_a_model_stands_in_the_picture() -> None:
    graph = resolve(learning().definitions())
    [line] = [line for line in as_text(graph).splitlines() if line.startswith("model")]
    assert line.split(maxsplit=2)[1:] == ["top", "trained on stored every 5 minutes"]
    assert "  stored --> top" in as_mermaid(graph)
    assert '  top{{"top"}}' in as_mermaid(graph)


def test_a_model_cannot_be_trained_on_what_it_scores() -> None:
    app = pipeline()

    @app.model(trained_on="judged", schema="n bigint")
    def top(judged): ...  # type: ignore[no-untyped-def]

    app.sql("judged", "select * from stored join top")
    with pytest.raises(CyclicReads):
        resolve(app.definitions())

from pathlib import Path

import pytest

from headwater import Pipeline
from headwater.connectors import delta, json, kafka, parquet, postgres, queue, rate, socket
from headwater.connectors.interface import Connector
from headwater.errors import (
    DefinitionError,
    EventTimeMissing,
    InvalidDuration,
    KeyEmpty,
    LimitUnsupported,
    NoTables,
    NotReadable,
    NotWritable,
    SchemaMissing,
    SharedSink,
    StorageNotAtomic,
)
from headwater.graph import laws, resolve
from headwater.settings import CHECKPOINT_FILES, Settings


def check(app: Pipeline) -> None:
    laws.check(resolve(app.definitions()), Settings(folder=Path("/project")))


def test_a_pipeline_without_a_table_has_nothing_to_run() -> None:
    with pytest.raises(NoTables):
        check(Pipeline("app"))


@pytest.mark.parametrize("sink", [delta("out"), parquet("out"), kafka("out")])
def test_two_tables_never_write_to_one_place(sink: object) -> None:
    app = Pipeline("app")
    app.source("ticks", rate())
    app.sql("first", "select * from ticks", into=sink)
    app.sql("second", "select * from ticks", into=sink)
    with pytest.raises(SharedSink) as caught:
        check(app)
    assert "'first'" in str(caught.value)


@pytest.mark.parametrize("places", [("out", "out/errors"), ("out/errors", "out")])
def test_no_table_writes_into_the_folder_of_another(places: tuple[str, str]) -> None:
    app = Pipeline("app")
    app.source("ticks", rate())
    app.sql("first", "select * from ticks", into=parquet(places[0]))
    app.sql("second", "select * from ticks", into=delta(places[1]))
    with pytest.raises(SharedSink):
        check(app)
    app = Pipeline("app")
    app.source("ticks", rate())
    app.sql("first", "select * from ticks", into=parquet("out"))
    app.sql("second", "select * from ticks", into=parquet("out2"))
    check(app)


def test_json_without_a_schema_is_refused() -> None:
    app = Pipeline("app")
    app.source("signals", json("in"))
    app.sql("stored", "select * from signals")
    with pytest.raises(SchemaMissing):
        check(app)


@pytest.mark.parametrize("given", [{"watermark": "1 minute"}, {"max_ahead": "1 minute"}])
def test_a_watermark_needs_an_event_time(given: dict[str, str]) -> None:
    app = Pipeline("app")
    app.source("ticks", rate(), **given)  # type: ignore[arg-type]
    app.sql("stored", "select * from ticks")
    with pytest.raises(EventTimeMissing, match="needs an event_time"):
        check(app)


@pytest.mark.parametrize(
    ("connector", "limit"), [(kafka("in"), "64 MB"), (rate(), 100), (queue([[1]]), "1 file")]
)
def test_a_limit_that_would_not_be_kept_is_refused(connector: Connector, limit: int | str) -> None:
    app = Pipeline("app")
    app.source("rows", connector, schema="n long", max_per_batch=limit)
    app.sql("stored", "select * from rows")
    with pytest.raises(LimitUnsupported) as caught:
        check(app)
    assert caught.value.where is not None


@pytest.mark.parametrize("mistake", ["RELOAD EVERY INTERVAL 0 SECONDS", "MAX AHEAD INTERVAL 1 DAY"])
def test_sql_is_held_to_the_same_laws(mistake: str, tmp_path: Path) -> None:
    lookup, source = (mistake, "") if mistake.startswith("RELOAD") else ("", mistake)
    (tmp_path / "app.sql").write_text(
        f"CREATE LOOKUP sites (device STRING) USING csv OPTIONS (path = 'sites.csv') {lookup};\n"
        f"CREATE STREAMING SOURCE ticks (at TIMESTAMP) USING rate {source};\n"
        "CREATE STREAMING TABLE stored AS SELECT * FROM STREAM ticks;\n"
    )
    app = Pipeline("app")
    app.sql_file(tmp_path / "app.sql")
    with pytest.raises((InvalidDuration, EventTimeMissing)):
        check(app)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [("device string", "not among"), ("at string", "is a string")],
)
def test_event_time_is_a_timestamp_column(schema: str, problem: str) -> None:
    app = Pipeline("app")
    app.source("signals", json("in"), schema=schema, event_time="at", watermark="1 minute")
    app.sql("stored", "select * from signals")
    with pytest.raises(EventTimeMissing, match=problem):
        check(app)


def test_a_sink_that_cannot_be_written_is_refused() -> None:
    app = Pipeline("app")
    app.source("ticks", rate())
    app.sql("stored", "select * from ticks", into=socket("localhost", 9999))
    with pytest.raises(NotWritable):
        check(app)


def test_a_source_that_cannot_be_read_as_a_stream_is_refused() -> None:
    app = Pipeline("app")
    app.source("people", postgres("people"))
    app.sql("stored", "select * from people")
    with pytest.raises(NotReadable):
        check(app)


def test_a_lookup_that_cannot_be_read_as_a_batch_is_refused() -> None:
    app = Pipeline("app")
    app.source("ticks", rate())
    app.lookup("lines", socket("localhost", 9999))
    app.sql("stored", "select * from ticks cross join lines")
    with pytest.raises(NotReadable):
        check(app)


def test_an_empty_key_column_is_refused() -> None:
    app = Pipeline("app")
    app.source("ticks", rate())
    app.sql("stored", "select * from ticks", key=[""])
    with pytest.raises(KeyEmpty):
        check(app)


def test_every_law_names_the_users_line() -> None:
    app = Pipeline("app")
    app.source("signals", json("in"))
    app.sql("stored", "select * from signals")
    with pytest.raises(DefinitionError) as caught:
        check(app)
    assert caught.value.where is not None
    assert caught.value.where.file == __file__


def on_storage(storage: str, **spark: str) -> Settings:
    return Settings(folder=Path("/project"), profile="cluster", storage=storage, spark=spark)


@pytest.mark.parametrize(
    "storage", [".headwater", "file:///data", "hdfs://lake/x", "abfss://a@b/c"]
)
def test_a_storage_that_renames_at_once_is_taken(storage: str) -> None:
    laws.a_checkpoint_is_written_in_one_step(on_storage(storage))


@pytest.mark.parametrize("storage", ["s3a://lake/x", "gs://lake/x", "unheard://of"])
def test_a_storage_that_may_copy_is_refused_unless_checkpoints_are_written_otherwise(
    storage: str,
) -> None:
    app = Pipeline("app")
    app.source("ticks", rate())
    app.sql("stored", "select * from ticks")
    graph = resolve(app.definitions())
    with pytest.raises(StorageNotAtomic) as caught:
        laws.check(graph, on_storage(storage))
    assert storage in str(caught.value)
    assert f"[profile.cluster.spark]: {CHECKPOINT_FILES}" in str(caught.value)
    laws.check(graph, on_storage(storage, **{CHECKPOINT_FILES: "of.the.Store"}))

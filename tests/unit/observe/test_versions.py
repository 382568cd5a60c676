"""The version of each model in use, as metrics."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from headwater import Pipeline
from headwater.connectors import rate
from headwater.events import ModelPublished, ModelRefused, ModelTrained
from headwater.observe.metrics import Metrics
from headwater.observe.versions import model_samples
from headwater.runtime.models import ModelStore, Version
from headwater.runtime.storage import Storage
from headwater.settings import Settings


def values(metrics: Metrics) -> dict[tuple[str, ...], float]:
    return {
        (s.name.removeprefix("headwater_model_"), *list(s.labels.values())[1:]): s.value
        for family in text_string_to_metric_families(metrics.text())
        for s in family.samples
    }


def test_the_version_in_use_is_asked_at_each_scrape(tmp_path: Path) -> None:
    app = Pipeline("app", settings=Settings(folder=tmp_path))
    app.source("ticks", rate())
    app.sql("raw", "SELECT * FROM ticks")
    app.model(trained_on="raw", name="usual")(lambda raw: raw)
    metrics, definitions = Metrics("app"), app.definitions()
    metrics.more = model_samples(None, definitions, app.settings)
    assert values(metrics) == {("version", "usual"): 0}
    model = definitions.models["usual"]
    store = ModelStore(Storage(app.settings.storage_root, "app"), model)
    for number in (1, 2):
        at = f"2026-01-0{number}T00:00:00+00:00"
        store.record(Version(number, at, 2.0, model.columns, rows=1, score=-0.5 * number))
        store.publish(number)
    assert values(metrics) == {
        ("version", "usual"): 2,
        ("score", "usual"): -1,
        ("published_timestamp_seconds", "usual"): 1767312002,
    }
    store.pin(1)
    assert values(metrics)["version", "usual"] == 1


def test_trainings_are_counted_by_what_they_led_to() -> None:
    metrics = Metrics("app")
    for event in (
        ModelTrained("usual", 1, 10, 1.5),
        ModelPublished("usual", 1, 0),
        ModelRefused("usual", 2, 1, "it returned nothing"),
        ModelRefused("usual", 3, 1, "it returned nothing"),
    ):
        metrics.report(event)
    assert values(metrics) == {
        ("training_seconds", "usual"): 1.5,
        ("trainings_total", "usual", "published"): 1,
        ("trainings_total", "usual", "refused"): 2,
    }

"""Which version of each model is used, read from the storage at each scrape: another process may
have published or pinned one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headwater.definitions import Definitions
from headwater.observe.metrics import MODEL_PUBLISHED, MODEL_SCORE, MODEL_VERSION, Sample
from headwater.runtime.models import NONE, ModelStore
from headwater.runtime.storage import Storage
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def model_samples(
    spark: SparkSession | None, definitions: Definitions, settings: Settings
) -> Callable[[], Iterator[Sample]]:
    """Gives nothing about a model while the storage does not answer."""
    storage = Storage(settings.storage_root, definitions.pipeline)
    stores = [ModelStore(storage, model, spark) for model in definitions.models.values()]

    def samples() -> Iterator[Sample]:
        for store in stores:
            with contextlib.suppress(Exception):
                yield from _of_model(store)

    return samples


def _of_model(store: ModelStore) -> Iterator[Sample]:
    labels, version = {"model": store.model.name}, store.in_use()
    yield Sample(MODEL_VERSION, labels, NONE if version is None else version.version)
    if version is None:
        return
    yield Sample(MODEL_PUBLISHED, labels, version.published_s)
    if version.score is not None:
        yield Sample(MODEL_SCORE, labels, version.score)

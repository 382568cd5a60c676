"""How a demo ends: the counts proved, the findings held against the truth."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli.demo_servers import postgres_address
from headwater.cli.exit_codes import ExitCode
from headwater.demo import findings
from headwater.demo.app import ALERTS, ANOMALIES, MINUTES, TOPIC
from headwater.demo.findings import collected
from headwater.demo.judging import Finding, judged, read_truth
from headwater.demo.proof import Proof, alerts_in, counted_in, prove
from headwater.demo.simulator import SETTLES_S, Fleet
from headwater.events import BatchCompleted, Event, ModelPublished
from headwater.runtime.latency import quantile
from headwater.runtime.models import ModelStore, Version
from headwater.runtime.storage import Storage

_SHORTEST_S, _LONGEST_S = 120.0, 300.0
_JUDGED_S = SETTLES_S + 15
"""After a retraining: faults that begin in this time can be found."""

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.cli.app import Application


def _storage(application: Application) -> Storage:
    return Storage(application.settings.storage_root, application.pipeline.name)


def proof_of(
    application: Application, fleet: Fleet, ends: dict[int, int], tables: Sequence[str]
) -> Proof | None:
    if fleet.failure is not None:
        return None
    storage = _storage(application)
    counted = alerts = None
    if "device_minutes" in tables:
        address = postgres_address(application.settings.connection("postgres"))
        counted = counted_in(address, MINUTES, late=storage.table("device_minutes__late"))
        servers = fleet.bootstrap_servers
        alerts = alerts_in(address, ALERTS, bootstrap_servers=servers, topic=ANOMALIES)
    return prove(
        fleet.bootstrap_servers,
        TOPIC,
        ends,
        raw=storage.table("raw"),
        rejected=storage.table("records__rejected"),
        counted=counted,
        alerts=alerts,
    )


def tell_proof(fleet: Fleet, proof: Proof | None) -> ExitCode:
    if proof is None:
        print(f"The fleet failed: {fleet.failure}")
        return ExitCode.FAILED
    print("\n".join(proof.lines()), flush=True)
    return ExitCode.OK if proof.holds else ExitCode.FAILED


def is_retraining(event: Event) -> bool:
    return isinstance(event, ModelPublished) and event.previous > 0


class Length:
    """How long the fleet writes: as long as was asked for, or until there is something to judge.

    `clock` says the seconds."""

    def __init__(self, asked_s: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._asked_s, self._clock = asked_s, clock
        self._began_s = clock()
        self._learnt_s: float | None = None

    def begin(self) -> None:
        self._began_s = self._clock()

    def hear(self, event: Event) -> None:
        if is_retraining(event) and self._learnt_s is None:
            self._learnt_s = self._clock()

    def is_over(self) -> bool:
        now_s = self._clock()
        wrote_s = now_s - self._began_s
        if self._asked_s is not None:
            return wrote_s >= self._asked_s
        is_judged = self._learnt_s is not None and now_s - self._learnt_s >= _JUDGED_S
        return wrote_s >= (_SHORTEST_S if is_judged else _LONGEST_S)


class Delays:
    """How long the alerts took from the arrival of a reading to their commit in PostgreSQL, of
    readings that arrived after the first retraining, as everything is judged. `clock` says the
    seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rows: Counter[int] = Counter()
        self._learnt_s: float | None = None

    def hear(self, event: Event) -> None:
        if is_retraining(event) and self._learnt_s is None:
            self._learnt_s = self._clock()
        if self._learnt_s is None or not isinstance(event, BatchCompleted):
            return
        if event.table == "alerts":
            # Many false alarms of the first version are on their way when the second is published.
            oldest_ms = (self._clock() - self._learnt_s) * 1000
            young = {ms: rows for ms, rows in event.latency_rows.items() if ms <= oldest_ms}
            self._rows.update(young)

    def tell(self) -> None:
        middle, last = quantile(self._rows, 0.5), quantile(self._rows, 0.99)
        if middle is not None and last is not None:
            print(
                f"  alerts in PostgreSQL after their readings: p50 {middle / 1000:.1f} s, "
                f"p99 {last / 1000:.1f} s",
                flush=True,
            )


def _baselines(application: Application, spark: SparkSession | None = None) -> ModelStore:
    model = application.pipeline.definitions().models["baseline"]
    return ModelStore(_storage(application), model, spark)


def _published(store: ModelStore) -> list[Version]:
    return [version for version in store.versions() if version.is_published]


def without_learning(application: Application, spark: SparkSession) -> list[Finding]:
    """What the first version of the baseline would have found, had it stayed."""
    store = _baselines(application, spark)
    published = _published(store)
    if len(published) < 2:
        return []
    raw = spark.read.format("delta").load(_storage(application).table("raw"))
    baseline = store.at(published[0].version)
    return findings.without_learning(raw, baseline, since_s=published[1].published_s)


def tell_findings(
    application: Application, frozen: Sequence[Finding], truth: Path, delays: Delays
) -> None:
    """What was found, held against the truth, from the first retraining on."""
    published = _published(_baselines(application))
    for version in published:
        number, at = version.version, version.trained_at
        print(f"baseline: version {number} of {at}, {version.rows} devices")
    if len(published) < 2:
        print("findings are judged from the first retraining on; there was none yet")
        return
    servers = application.settings.connection("kafka").require("bootstrap_servers")
    storage = _storage(application)
    found = collected(servers, ANOMALIES, storage, first_version=published[1].version)
    faults = read_truth(truth)
    since_s, until_s = published[1].published_s, found.newest_s - SETTLES_S
    judgement = judged(faults, found.findings, since_s=since_s, until_s=until_s)
    print(f"findings since version {published[1].version}, by the truth in {truth}:")
    print("\n".join([*judgement.lines(), *found.lines()]))
    delays.tell()
    others = [finding for finding in found.findings if finding.table != "anomalies"]
    kept = judged(faults, [*frozen, *others], since_s=since_s, until_s=until_s)
    print(f"had version {published[0].version} stayed, over the same readings:")
    print("\n".join(kept.lines()), flush=True)

"""`run --standby`: a driver that is ready and waits until the one that runs has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.cli.app import Application
from headwater.cli.signals import StopSignals
from headwater.runtime.claims import Claim

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_S = 0.5


def stand_by(application: Application, spark: SparkSession, signals: StopSignals) -> Claim | None:
    """The right to run, as soon as nobody else has it; None where a signal came first."""
    claim = Claim(spark, application.settings, application.pipeline.name)
    told = None
    while not signals.requested.is_set():
        holder = claim.try_take()
        if holder is None:
            if told is not None:
                print("Taking over: nobody holds the storage any more", flush=True)
            return claim
        if holder != told:
            print(f"Standing by: {holder}", flush=True)
            told = holder
        signals.requested.wait(_POLL_S)
    return None

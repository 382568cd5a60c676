"""The Spark session and the settings that make it fast, each with its reason."""

from __future__ import annotations

import contextlib
import enum
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.errors import SessionLacksJars
from headwater.events import Report, silent, step
from headwater.jvm.call_sites import note_only_users_lines
from headwater.jvm.jar import COPY, LABEL, LAGS, LOCAL_FILES, headwater_jar
from headwater.ledger import compaction
from headwater.local.jars import JarSet, jar_paths
from headwater.local.java import find_java
from headwater.local.ports import HOST
from headwater.runtime.class_archive import archive_options, quoted
from headwater.runtime.shipping import shipped
from headwater.settings import CHECKPOINT_FILES, Settings, revealed_of_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SparkSetting:
    """One Spark setting with the reason why Headwater chose it, or who else did."""

    key: str
    value: str
    reason: str


_STATE = "org.apache.spark.sql.execution.streaming.state."
_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing."
_SQL = "spark.sql."
CHANGELOG = _SQL + "streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
"""Whether a batch uploads what changed in its state, or all of it."""


def spark_settings(settings: Settings) -> list[SparkSetting]:
    """Every setting that a session starts with; the user's own win and say so."""
    cores = settings.cores
    partitions = settings.shuffle_partitions or cores
    why_partitions = (
        "shuffle_partitions of the profile"
        if settings.shuffle_partitions
        else "one state partition per core: 200 cost 16 to 23 task-seconds of commits per run"
    )
    chosen = [
        _master(settings),
        _driver_memory(settings),
        SparkSetting(_SQL + "shuffle.partitions", str(partitions), why_partitions),
        SparkSetting(
            "spark.driver.defaultJavaOptions",
            f"{_JVM}{_first_heap(settings)}",
            "throughput counts more than pauses in a micro-batch; no collections while it grows",
        ),
        SparkSetting(
            _SQL + "streaming.stateStore.providerClass",
            _STATE + "RocksDBStateStoreProvider",
            "state outside the heap, changes instead of snapshots",
        ),
        SparkSetting(
            CHANGELOG,
            "true",
            "a batch uploads what changed, not the whole state",
        ),
        SparkSetting(
            _SQL + "session.timeZone",
            "UTC",
            "windows and results do not depend on the machine's zone",
        ),
        SparkSetting(
            _SQL + "extensions", "io.delta.sql.DeltaSparkSessionExtension", "managed tables"
        ),
        SparkSetting(
            _SQL + "catalog.spark_catalog",
            "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "managed tables",
        ),
        SparkSetting(
            "spark.databricks.delta.snapshotPartitions",
            "1",
            "the log of a small table fits one task; the default of 50 takes seconds",
        ),
        *_delta_tables(),
        SparkSetting(
            _SQL + "streaming.stopTimeout", "5s", "a forced stop ends even where code is stuck"
        ),
        SparkSetting(
            _SQL + "warehouse.dir",
            str(settings.local_folder / "warehouse"),
            "nothing of Spark's lands in the working folder",
        ),
        *_checkpoint_files(settings),
        SparkSetting("spark.ui.enabled", "false", "saves memory and a port; status shows progress"),
        SparkSetting("spark.ui.showConsoleProgress", "false", "no progress bars between log lines"),
        SparkSetting(
            _SQL + "streaming.metricsEnabled", "false", "metrics come from the progress reports"
        ),
        SparkSetting(
            "spark.scheduler.mode",
            "FAIR",
            "queries take turns, the oldest job first; those that are to be quick, and what goes "
            "on beside them, have shares of their own",
        ),
        SparkSetting(
            _SQL + "codegen.cache.maxEntries",
            "1000",
            "five tables need over 200 compiled pieces; of the default of 100 none would last. A "
            "batch with a watermark adds one that is never used again",
        ),
        SparkSetting(
            _SQL + "adaptive.enabled",
            "false",
            "small stateful batches gain nothing from planning twice",
        ),
    ]
    chosen += [_LOCAL_FILES] if _is_local(settings) else _of_cluster(settings)
    mine = {setting.key: setting for setting in chosen}
    for key, value in settings.spark.items():
        mine[key] = SparkSetting(key, value, f"headwater.toml [profile.{settings.profile}.spark]")
    return list(mine.values())


def _master(settings: Settings) -> SparkSetting:
    if settings.master != "local[*]":
        return SparkSetting("spark.master", settings.master, "master of the profile")
    return SparkSetting(
        "spark.master",
        f"local[{2 * settings.cores}]",
        "two tasks share a core: a batch that is to be quick begins while others have long tasks",
    )


def _delta_tables() -> Iterator[SparkSetting]:
    """What Delta tables are made with: properties of the table, which a table may have otherwise,
    and how small files are put together."""
    of_table = "spark.databricks.delta.properties.defaults."
    yield SparkSetting(
        of_table + "checkpointInterval",
        "50",
        "a log checkpoint every 50 commits instead of every 10",
    )
    yield SparkSetting(
        of_table + "logRetentionDuration",
        "interval 7 days",
        "a commit per second is 2.6 million files of log in Delta's 30 days; a reader may stand "
        "still for a week",
    )
    yield SparkSetting(
        of_table + "deletedFileRetentionDuration",
        "interval 7 days",
        "VACUUM leaves what a reader needs that stood still for as long as the log lasts",
    )
    yield SparkSetting(
        of_table + "autoOptimize.autoCompact",
        "true",
        "every batch adds files; a commit that finds 50 small ones makes one of them",
    )
    of_session = "spark.databricks.delta.autoCompact."
    yield SparkSetting(
        of_session + "minNumFiles",
        str(compaction.SMALL_FILES),
        "how many small files are put together at once",
    )
    yield SparkSetting(
        of_session + "modifiedPartitionsOnly.enabled",
        "false",
        "else the first commit of a run puts even two files together, and its batch waits for it",
    )
    yield SparkSetting(
        of_session + "maxFileSize",
        str(compaction.LARGE_BYTES),
        "files up to half of this are small: a batch waits for its compaction, which rewrites less "
        "than with Delta's 128 MB",
    )


_LOCAL_FILES = SparkSetting(
    "spark.hadoop.fs.file.impl",
    LOCAL_FILES,
    "Hadoop's own starts a process to set the permissions of every file it writes",
)


def _is_local(settings: Settings) -> bool:
    return settings.master.startswith("local")


def _of_cluster(settings: Settings) -> list[SparkSetting]:
    """What executors of their own need; where the master is on this machine, they are too."""
    chosen = [
        SparkSetting(
            "spark.executor.defaultJavaOptions",
            _JVM,
            "as in the driver",
        ),
        SparkSetting(
            "spark.speculation",
            "false",
            "a second attempt beside the first would write to Kafka twice",
        ),
    ]
    if settings.master.startswith(f"spark://{HOST}:"):
        chosen += [
            SparkSetting("spark.driver.host", HOST, "the cluster is on this machine"),
            SparkSetting("spark.executor.memory", "1g", "what a worker of this machine offers"),
            SparkSetting("spark.executor.cores", "1", "one executor per worker of this machine"),
        ]
    return chosen


def _checkpoint_files(settings: Settings) -> list[SparkSetting]:
    if "://" in settings.storage:
        return []
    return [
        SparkSetting(
            CHECKPOINT_FILES,
            _CHECKPOINTING + "FileSystemBasedCheckpointFileManager",
            "on a local disk Spark's first choice starts a process or two for every file it writes",
        )
    ]


_MEGABYTE = 1024**2


def _driver_memory(settings: Settings) -> SparkSetting:
    key = "spark.driver.memory"
    if settings.driver_memory:
        return SparkSetting(key, settings.driver_memory, "driver_memory of the profile")
    return SparkSetting(key, f"{_heap_mb()}m", "a quarter of the machine's memory, 1 to 4 GB")


def _heap_mb() -> int:
    machine_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _MEGABYTE
    return max(1024, min(4096, machine_mb // 4))


def _first_heap(settings: Settings) -> str:
    """Begins with a quarter of the heap: the JVM's own choice grows by many collections."""
    return "" if settings.driver_memory else f" -Xms{_heap_mb() // 4}m"


def open_session(
    settings: Settings,
    jars: Iterable[JarSet],
    *,
    report: Report = silent,
    is_verbose: bool = False,
) -> SparkSession:
    """The active session where there is one, else a new one with Headwater's settings."""
    from pyspark.sql import SparkSession

    note_only_users_lines()
    needed = {JarSet.DELTA, *jars}
    active = SparkSession.getActiveSession()
    if active is not None:
        _require_connectors(active, needed)
        return active
    is_local = _is_local(settings)
    # All connectors on one class path: then one archive of classes serves every application.
    paths = jar_paths(
        _CLASS_OF if is_local else sorted(needed, key=list(JarSet).index), report=report
    )
    paths.insert(0, headwater_jar())
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    # Without this another interpreter on the path runs the workers.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    log = settings.local_folder / "logs" / "spark.log"
    builder = SparkSession.builder.appName("headwater")
    for setting in spark_settings(settings):
        revealed = revealed_of_spark(setting.key, setting.value, settings.profile)
        builder = builder.config(setting.key, revealed)
    key, value = _jar_setting(settings, paths)
    builder = builder.config(key, value)
    java_options = [settings.spark.get(_JAVA_OPTIONS, "")]
    if is_local:
        java_options.append(archive_options(java, paths, report))
    else:
        for key, value in shipped(settings, report).items():
            builder = builder.config(key, value)
    if not is_verbose:
        java_options.append(_log_option(log))
    builder = builder.config(_JAVA_OPTIONS, " ".join(filter(None, java_options)))
    with step("Starting Spark", report), _stderr_to(None if is_verbose else log):
        session: SparkSession = builder.getOrCreate()
        # Custom state needs the state coordinator even in a batch; asking for queries starts it.
        session.streams.active  # noqa: B018
    return session


class Share(enum.Enum):
    """Of the cores. Within one, the oldest job comes first. A share for each query would not be
    fair: of those that have no task running, Spark always takes the one whose name comes first."""

    PROMPT = "headwater/a-prompt"
    """Queries that are to be quick: they do not wait behind the jobs of those that are not."""
    QUERIES = "headwater/queries"
    BESIDE = "headwater/beside"
    """Models that are trained, questions that are asked."""


@contextlib.contextmanager
def scheduled_in(spark: SparkSession, share: Share) -> Iterator[None]:
    """What this thread begins, queries too, is done in a share of the cores."""
    spark.sparkContext.setLocalProperty(_POOL, share.value)
    try:
        yield
    finally:
        spark.sparkContext.setLocalProperty(_POOL, None)  # type: ignore[arg-type]  # removes it


_POOL = "spark.scheduler.pool"
_JVM = "-XX:+UseParallelGC -XX:MetaspaceSize=256m -Djava.net.preferIPv6Addresses=false"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_CLASS_OF = {
    JarSet.DELTA: "io.delta.tables.DeltaTable",
    JarSet.KAFKA: "org.apache.spark.sql.kafka010.KafkaSourceProvider",
    JarSet.POSTGRES: "org.postgresql.Driver",
    JarSet.MARIADB: "org.mariadb.jdbc.Driver",
}


def _require_connectors(session: SparkSession, needed: Collection[JarSet]) -> None:
    """A session that somebody else started may lack what the connectors need."""
    jvm: Any = session._jvm
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()

    def require(name: str, of: str, paths: Callable[[], list[Path]]) -> None:
        try:
            loader.loadClass(name)
        except Exception as missing:
            raise SessionLacksJars(of, map(str, paths())) from missing

    for jars in sorted(needed, key=lambda jars: jars.value):
        require(_CLASS_OF[jars], jars.value, partial(jar_paths, [jars]))
    ours = {LAGS: True, LABEL: JarSet.KAFKA in needed, COPY: JarSet.POSTGRES in needed}
    for name in [name for name, is_used in ours.items() if is_used]:
        require(name, "headwater", lambda: [headwater_jar()])


def _jar_setting(settings: Settings, paths: list[Path]) -> tuple[str, str]:
    """Our jars before the user's own, in the setting that the master understands."""
    key, separator = ("spark.jars", ",")
    if _is_local(settings):
        key, separator = ("spark.driver.extraClassPath", os.pathsep)
    given = [settings.spark[key]] if key in settings.spark else []
    return key, separator.join([*map(str, paths), *given])


_LOG4J = """\
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 20MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
logger.codegen.name = org.apache.spark.sql.catalyst.expressions.codegen
logger.codegen.level = warn
logger.scheduler.name = org.apache.spark.scheduler
logger.scheduler.level = warn
logger.storage.name = org.apache.spark.storage
logger.storage.level = warn
logger.executor.name = org.apache.spark.executor
logger.executor.level = warn
logger.kafka.name = org.apache.kafka
logger.kafka.level = warn
"""


def _log_option(log: Path) -> str:
    log.parent.mkdir(parents=True, exist_ok=True)
    configuration = log.parent / "log4j2.properties"
    configuration.write_text(_LOG4J.format(log=log))
    return quoted(f"-Dlog4j2.configurationFile={configuration.resolve().as_uri()}")


@contextlib.contextmanager
def _stderr_to(log: Path | None) -> Iterator[None]:
    """The JVM inherits this process's standard error at its start: hand it the log instead."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    with open(log.parent / "jvm.log", "ab") as target:
        os.dup2(target.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)

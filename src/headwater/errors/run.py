"""A pipeline that cannot start, or a query that ended."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.errors.base import (
    EnvironmentProblem,
    Location,
    QueryError,
    UsageError,
    listed,
    nearest,
)


class PipelineOwned(UsageError):
    code = "PIPELINE_OWNED"

    def __init__(self, pipeline: str, pid: int | None, folder: str) -> None:
        super().__init__(
            f"pipeline {pipeline!r} already runs on this folder",
            found=f"process {pid} owns {folder}" if pid else folder,
            remedy="stop it first; a second run needs a project folder of its own",
            data="nothing was read or written",
            next_command="headwater stop",
        )


class DemoFolderTaken(UsageError):
    """A pipeline of the user's own is called as the demo's."""

    code = "DEMO_FOLDER_TAKEN"

    def __init__(self, folder: str) -> None:
        super().__init__(
            "a pipeline named 'demo' keeps its tables and checkpoints in this project",
            found=folder,
            remedy="run the demo in another folder",
            data="nothing was read, written or removed",
            next_command="mkdir demo && cd demo && headwater demo",
        )


class StorageLeased(UsageError):
    code = "STORAGE_LEASED"

    def __init__(self, pipeline: str, holder: str, storage: str) -> None:
        super().__init__(
            f"another driver runs pipeline {pipeline!r} on this storage",
            found=f"{holder} holds {storage}",
            remedy="stop it first, use another storage, or wait for its end with --standby",
            data="nothing was read or written",
            next_command="headwater run --standby",
        )


class LeaseLost(EnvironmentProblem):
    """Another driver has taken over, or the storage could not be reached for too long."""

    code = "LEASE_LOST"

    def __init__(self, pipeline: str, found: str, storage: str) -> None:
        super().__init__(
            f"this driver may no longer write pipeline {pipeline!r}",
            found=f"its lease on {storage} is gone: {found}",
            remedy="let the other driver go on; look why this one stood still or was cut off",
            data="the running batch was given up; whoever holds the lease reads it again",
            next_command="headwater run --standby",
        )


class SparkEnded(EnvironmentProblem):
    code = "SPARK_ENDED"

    def __init__(self, exit_code: int) -> None:
        how = f"by signal {-exit_code}" if exit_code < 0 else f"with code {exit_code}"
        super().__init__(
            "Spark's process has ended in the middle of the run",
            found=f"the JVM of the driver ended {how}",
            remedy="look at .headwater/logs/jvm.log and at the machine's memory; --supervise "
            "starts it again",
            data="batches that were committed stay; the one that ran is read again",
            next_command="headwater run",
        )


class PipelineUnreachable(EnvironmentProblem):
    code = "PIPELINE_UNREACHABLE"

    def __init__(self, pipeline: str, pid: int, problem: str) -> None:
        super().__init__(
            f"pipeline {pipeline!r} (process {pid}) does not answer",
            found=problem,
            next_command="headwater status",
        )


class UnknownTable(UsageError):
    code = "UNKNOWN_TABLE"

    def __init__(self, found: str, tables: Iterable[str]) -> None:
        tables = list(tables)
        close = nearest(found, tables)
        super().__init__(
            f"there is no table {found!r}",
            expected=f"one of: {listed(tables)}",
            remedy=f"did you mean {close!r}?" if close else None,
        )


class QueryFailedError(QueryError):
    """A query ended with an error; the others go on."""

    code = "QUERY_FAILED"

    def __init__(
        self,
        table: str,
        found: str,
        *,
        last_batch: int | None,
        remedy: str = "mend the cause and start again; the checkpoint resumes",
        where: Location | None = None,
    ) -> None:
        self.table = table
        super().__init__(
            f"table {table!r} stopped",
            where=where,
            found=found,
            data=f"{_kept(last_batch)} is committed; the failed batch is read again at the next "
            "start",
            remedy=remedy,
            next_command="headwater run",
        )


class CheckpointDamaged(QueryError):
    """A file of a checkpoint is missing, empty or cut off."""

    code = "CHECKPOINT_DAMAGED"

    def __init__(
        self, table: str, found: str, *, last_batch: int | None, where: Location | None = None
    ) -> None:
        self.table = table
        super().__init__(
            f"the checkpoint of table {table!r} is damaged",
            where=where,
            found=found,
            remedy="bring the file back from a copy, go back to a savepoint, or compute the "
            "table anew from its input",
            data=f"{_kept(last_batch)} is in the sink and stays; nothing else was written",
            next_command=f"headwater rebuild {table}",
        )


def _kept(last_batch: int | None) -> str:
    return "no batch" if last_batch is None else f"everything up to batch {last_batch}"


class StorageUnwritable(EnvironmentProblem):
    code = "STORAGE_UNWRITABLE"

    def __init__(self, path: str, reason: str, *, is_full: bool) -> None:
        super().__init__(
            "the storage cannot be written",
            found=f"{path}: {reason}",
            remedy="make room on the disk" if is_full else "let this user write there",
            data="committed batches are whole; what was not committed is read again at the next "
            "start",
            next_command="headwater run",
        )


class DataLost(EnvironmentProblem):
    """A checkpoint goes on from input that is no longer there."""

    code = "DATA_LOST"

    def __init__(
        self, source: str, table: str, gaps: Iterable[str], *, where: Location | None = None
    ) -> None:
        super().__init__(
            f"source {source!r} no longer has everything that table {table!r} goes on from",
            where=where,
            found="; ".join(gaps),
            remedy='bring the records back, go on without them with on_data_loss="skip", '
            "or begin anew with --fresh",
            data=f"the gap is kept in {source}__gaps; nothing else was read or written",
            next_command=f"headwater show {source}__gaps",
        )


class TopicDeleted(EnvironmentProblem):
    """A checkpoint goes on from a topic that was deleted, and maybe made anew."""

    code = "TOPIC_DELETED"

    def __init__(
        self,
        topic: str,
        source: str,
        table: str,
        gaps: Iterable[str],
        *,
        is_there: bool,
        is_skipped: bool,
        where: Location | None = None,
    ) -> None:
        skip = "read it from its beginning" + ("" if is_skipped else ' with on_data_loss="skip"')
        new_topic = f"{skip}, or begin anew with --fresh"
        super().__init__(
            f"topic {topic!r}, from which table {table!r} goes on, was deleted"
            + (" and made anew" if is_there else ""),
            where=where,
            found="; ".join(gaps),
            remedy=new_topic
            if is_there
            else f"make the topic again (kafka({topic!r}, create=True) does), then {new_topic}",
            data=f"records that were not read by then are gone; the gap is kept in {source}__gaps; "
            "the rows and the checkpoint of the table are as they were",
            next_command=f"headwater show {source}__gaps",
        )


class BackfillImpossible(UsageError):
    code = "BACKFILL_IMPOSSIBLE"

    def __init__(self, table: str, found: str, *, where: Location | None = None) -> None:
        super().__init__(
            f"table {table!r} cannot be filled again",
            where=where,
            found=found,
            remedy="take a range behind the watermark of a Delta table, and name its time with "
            "--column",
            data="nothing was changed",
        )


class RebuildImpossible(UsageError):
    code = "REBUILD_IMPOSSIBLE"

    def __init__(
        self, table: str, found: str, remedy: str, *, where: Location | None = None
    ) -> None:
        super().__init__(
            f"table {table!r} cannot be made anew beside itself",
            where=where,
            found=found,
            remedy=remedy,
            data="nothing was changed",
        )


class RepartitionImpossible(UsageError):
    code = "REPARTITION_IMPOSSIBLE"

    def __init__(
        self, table: str, partitions: int, found: str, *, where: Location | None = None
    ) -> None:
        super().__init__(
            f"the state of table {table!r} cannot get {partitions} partitions in place",
            where=where,
            found=found,
            remedy="compute the table anew with the other number: --shuffle-partitions "
            f"{partitions}",
            data="nothing was changed",
            next_command=f"headwater rebuild {table} --shuffle-partitions {partitions}",
        )


class SavepointExists(UsageError):
    code = "SAVEPOINT_EXISTS"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is a savepoint {name!r} already",
            remedy="take another name; a savepoint is never replaced",
            next_command="headwater savepoint list",
        )


class UnknownSavepoint(UsageError):
    code = "UNKNOWN_SAVEPOINT"

    def __init__(self, name: str, known: Iterable[str]) -> None:
        known = list(known)
        close = nearest(name, known)
        super().__init__(
            f"there is no savepoint {name!r}",
            found=f"savepoints: {listed(known)}" if known else "none was made yet",
            remedy=f"did you mean {close!r}?" if close else None,
            next_command="headwater savepoint list",
        )


class SavepointNotRestorable(UsageError):
    """Going back would leave a sink with rows that the pipeline writes again."""

    code = "SAVEPOINT_NOT_RESTORABLE"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            f"savepoint {name!r} cannot be restored",
            found=reason,
            remedy="restore a savepoint without this table, or empty the sink and run --fresh",
            data="nothing was changed",
        )


class BatchUnfinished(UsageError):
    """A batch was begun and not committed: its rows may be in the sink, and may not."""

    code = "BATCH_UNFINISHED"

    def __init__(self, table: str, batch: int, command: str) -> None:
        super().__init__(
            f"table {table!r} has not finished batch {batch}",
            remedy="let it finish, then try again: headwater run --available-now",
            data="nothing was changed; the batch is read again at the next start",
            next_command=f"headwater run --available-now && headwater {command}",
        )


class RestoreUnfinished(UsageError):
    """A savepoint was being put back when the process died."""

    code = "RESTORE_UNFINISHED"

    def __init__(self, name: str, tables: Iterable[str]) -> None:
        done = ", ".join(tables) or "none"
        super().__init__(
            f"the restore of savepoint {name!r} did not end",
            found=f"tables that are restored: {done}",
            remedy="restore it again; it goes on where it ended",
            data="checkpoints and rows may not fit together yet; nothing was read or written now",
            next_command=f"headwater savepoint restore {name}",
        )


class FreshImpossible(UsageError):
    """`--fresh` would write rows again into a sink that keeps the old ones."""

    code = "FRESH_IMPOSSIBLE"

    def __init__(self, table: str, sink: str, reason: str) -> None:
        super().__init__(
            f"table {table!r} cannot begin anew in {sink}",
            found=reason,
            remedy="name another place in into=, or empty that one and remove the checkpoint",
            data="nothing was moved; the checkpoint and the rows are as they were",
        )


class NoCheckpoint(UsageError):
    code = "NO_CHECKPOINT"

    def __init__(self, tables: Iterable[str]) -> None:
        super().__init__(
            f"no batch of {listed(list(tables))} was committed yet",
            remedy="run the pipeline first",
            next_command="headwater run",
        )


class NoState(UsageError):
    code = "NO_STATE"

    def __init__(self, table: str, operator: int, found: str) -> None:
        super().__init__(
            f"table {table!r} has no state of operator {operator} to show",
            found=found,
            remedy="run the table first, or name what it has: --operator N, --part NAME; tables "
            "without aggregation, deduplication, stream-stream join or processor keep none",
        )


class NotAFolderOfFiles(UsageError):
    code = "NOT_A_FOLDER_OF_FILES"

    def __init__(self, table: str, found: str, *, where: Location | None = None) -> None:
        super().__init__(
            f"table {table!r} is not written to a folder of files",
            where=where,
            found=found,
            remedy="Delta and databases have readers of their own; see headwater show",
        )


class RowsWithoutCheckpoint(UsageError):
    code = "ROWS_WITHOUT_CHECKPOINT"

    def __init__(self, table: str, *, where: Location | None = None) -> None:
        super().__init__(
            f"table {table!r} holds rows, but no checkpoint says which input they came from",
            where=where,
            found="a batch run wrote them, or the checkpoint was removed",
            remedy="start the table afresh: its rows are moved aside and kept",
            data="nothing was read or written; a start would have written its rows twice",
            next_command=f"headwater run --fresh {table}",
        )


class CheckpointExists(UsageError):
    code = "CHECKPOINT_EXISTS"

    def __init__(self, tables: Iterable[str], *, where: Location | None = None) -> None:
        super().__init__(
            f"a stream has written {listed(tables)}; a batch run would replace its rows",
            where=where,
            remedy="add --replace: rows are replaced, the checkpoint is moved aside and kept",
            data="nothing was written",
            next_command="headwater run --batch --replace",
        )


class SideTableUnwritten(QueryError):
    """Late or rejected rows could not be stored beside a result."""

    code = "SIDE_TABLE_UNWRITTEN"

    def __init__(self, table: str, problem: str) -> None:
        super().__init__(
            f"rows of {table} could not be stored",
            found=problem,
            data="results are complete; these rows are read again at the next start",
            next_command="headwater run",
        )


class LateMergeImpossible(UsageError):
    """A table whose late rows cannot be counted afterwards."""

    code = "LATE_MERGE_IMPOSSIBLE"

    def __init__(
        self, table: str, reason: str, remedy: str, *, where: Location | None = None
    ) -> None:
        super().__init__(
            f"late rows of table {table!r} cannot be merged",
            where=where,
            found=reason,
            remedy=remedy,
            data="nothing was changed; the late rows stay where they are",
        )

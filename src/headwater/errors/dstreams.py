"""A DStream program that cannot start, or that ended."""

from __future__ import annotations

from headwater.errors.base import EnvironmentProblem, Location, QueryError, UsageError


class InvalidBatchInterval(UsageError, ValueError):
    code = "DSTREAM_INTERVAL"

    def __init__(self, found: object) -> None:
        super().__init__(
            "a batch interval is a number of seconds above zero",
            found=repr(found),
            remedy="StreamingContext(sc, 1) runs a batch every second; 0.5 is possible too",
        )


class InvalidWindow(UsageError, ValueError):
    code = "DSTREAM_WINDOW"

    def __init__(self, what: str, found_s: float, slide_s: float) -> None:
        super().__init__(
            f"{what} must be a multiple of the stream's own slide",
            found=f"{found_s:g} s over a stream that slides every {slide_s:g} s",
            remedy="a window holds whole batches: choose a multiple",
        )


class SlidesDiffer(UsageError, ValueError):
    code = "DSTREAM_SLIDES_DIFFER"

    def __init__(self, operation: str, slides_s: list[float]) -> None:
        super().__init__(
            f"{operation} needs streams with one slide",
            found=", ".join(f"{slide:g} s" for slide in slides_s),
            remedy="give the windows the same slideDuration",
        )


class ContextAlreadyStarted(UsageError):
    code = "DSTREAM_ALREADY_STARTED"

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} after the context has started",
            remedy="declare inputs, transformations and outputs before start(); "
            "stop this context before another starts",
            data="the running program goes on unchanged",
        )


class ContextStopped(UsageError):
    code = "DSTREAM_STOPPED"

    def __init__(self) -> None:
        super().__init__(
            "this context was stopped and cannot start again",
            remedy="make a new StreamingContext; with getOrCreate it goes on where this one ended",
        )


class NoOutputs(UsageError):
    code = "DSTREAM_NO_OUTPUT"

    def __init__(self) -> None:
        super().__init__(
            "the program has no output, so there is nothing to run",
            remedy="call pprint, foreachRDD or saveAsTextFiles on a stream before start()",
        )


class CheckpointDirectoryMissing(UsageError):
    code = "DSTREAM_CHECKPOINT_MISSING"

    def __init__(self, operation: str) -> None:
        super().__init__(
            f"{operation} keeps state, and there is no checkpoint directory",
            remedy="call ssc.checkpoint(directory) before start()",
            data="nothing was read",
        )


class InvalidCheckpointInterval(UsageError, ValueError):
    code = "DSTREAM_CHECKPOINT_INTERVAL"

    def __init__(self, found_s: float, slide_s: float) -> None:
        super().__init__(
            "a stream is saved at multiples of its slide",
            found=f"{found_s:g} s for a stream that slides every {slide_s:g} s",
        )


class TooFewCores(EnvironmentProblem):
    code = "DSTREAM_TOO_FEW_CORES"

    def __init__(self, receivers: int, cores: int) -> None:
        super().__init__(
            "every receiver takes a core, and none would be left for the batches",
            found=f"{receivers} receivers, {cores} cores",
            expected=f"at least {receivers + 1} cores",
            remedy=f'SparkContext("local[{receivers + 1}]", …) or a larger cluster',
        )


class DStreamProgramChanged(UsageError):
    code = "DSTREAM_PROGRAM_CHANGED"

    def __init__(self, folder: str, *, found: str, expected: str) -> None:
        super().__init__(
            "the checkpoint belongs to a program of another shape",
            found=found,
            expected=f"{expected}, as {folder} says",
            remedy="functions may change, the streams and the interval may not: "
            "use another checkpoint directory for the changed program",
            data="nothing was read; the checkpoint is unchanged",
        )


class DStreamInputGone(QueryError):
    code = "DSTREAM_INPUT_GONE"

    def __init__(self, batch: int, folder: str) -> None:
        super().__init__(
            f"the input of batch {batch} is needed again and no longer known",
            found=f"{folder}/offsets has no entry for it",
            remedy="remember() longer, or ask slice() for a later time",
        )


class DStreamFailed(QueryError):
    code = "DSTREAM_FAILED"

    def __init__(self, batch: int, found: str, *, where: Location | None, is_kept: bool) -> None:
        super().__init__(
            f"batch {batch} of the program failed",
            where=where,
            found=found,
            data="the batch is not committed; what was committed before is kept"
            if is_kept
            else "the program has no checkpoint directory: a new start begins anew",
            remedy="a program that starts through getOrCreate runs this batch again, "
            "with the same time and the same records"
            if is_kept
            else "ssc.checkpoint(directory) and StreamingContext.getOrCreate go on after a failure",
        )


class DStreamUnsupported(UsageError):
    code = "DSTREAM_UNSUPPORTED"

    def __init__(self, what: str, reason: str, instead: str) -> None:
        super().__init__(f"{what} is not supported", found=reason, remedy=instead)


class ProgramUnreadable(UsageError):
    code = "DSTREAM_PROGRAM_UNREADABLE"

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            f"{path} cannot be read as a Python program",
            found=problem,
            next_command="headwater dstream check program.py",
        )

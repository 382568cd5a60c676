import pytest

from headwater.errors import KeyNotUnique, Location
from headwater.runtime.failures import explained
from headwater.runtime.supervision import incurable

APP = Location("/project/app.py", 10)
TRACEBACK = """Traceback (most recent call last):
  File "/env/site-packages/pyspark/worker.py", line 1, in main
  File "/project/app.py", line 42, in double
    return 2 / value
ZeroDivisionError: division by zero
"""


def test_the_users_own_line_comes_first() -> None:
    error = explained("t", APP, ["Job aborted", TRACEBACK], last_batch=3)
    assert error.where == Location("/project/app.py", 42)
    assert error.found == "ZeroDivisionError: division by zero"
    assert "up to batch 3" in (error.data or "")


def test_a_line_of_another_module_of_the_users_is_found_too() -> None:
    text = TRACEBACK.replace("ZeroDivisionError: division by zero", "") + (
        '  File "/project/helpers/words.py", line 7, in parse\n    raise Unreadable(text)\n'
        '  File "/worker/lib/python3.11/site-packages/lib/parse.py", line 3, in parse\n'
        "helpers.words.Unreadable: what\n\tat org.apache.spark.Task.run\n"
    )
    error = explained("t", APP, ["Job aborted", text], last_batch=3)
    assert error.where == Location("/project/helpers/words.py", 7)
    assert error.found == "helpers.words.Unreadable: what"


def test_without_a_python_frame_the_innermost_cause_speaks() -> None:
    messages = ["[STREAM_FAILED] Query failed", "[TASK_WRITE_FAILED] Task failed", "Disk full"]
    error = explained("t", APP, messages, last_batch=None)
    assert (error.where, error.found) == (APP, "Disk full")
    assert "no batch" in (error.data or "")


def test_our_own_error_inside_a_batch_keeps_its_code_and_remedy() -> None:
    ours = str(KeyNotUnique("t", ["device"], 4))
    message = f'Traceback\n  File "x.py", line 1\nheadwater.errors.KeyNotUnique: {ours}\n\nat org'
    error = explained("t", APP, ["Python proxy", message], last_batch=3)
    assert (error.found or "").startswith("KEY_NOT_UNIQUE: table 't'")
    assert "name every grouping column" in (error.found or "")


def test_sparks_dump_of_the_query_is_left_out() -> None:
    error = explained("t", APP, ["Broken\n=== Streaming Query ===\nIdentifier"], last_batch=None)
    assert error.found == "Broken"


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("java.io.IOException: No space left on device", "make room on the disk"),
        ("java.io.FileNotFoundException: /x (Read-only file system)", "let this user write there"),
        ("java.net.ConnectException: Connection refused", "mend the cause"),
    ],
)
def test_the_remedy_fits_the_disk(message: str, remedy: str) -> None:
    problem = explained("hot", Location("app.py", 3), [message], last_batch=4)
    assert problem.code == "QUERY_FAILED"
    assert problem.remedy is not None
    assert problem.remedy.startswith(remedy)


@pytest.mark.parametrize(
    "message",
    [
        "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE] An error. /s/2.changelog does "
        "not exist. If the stream job is restarted",
        "[STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY] Cannot restart",
        "java.lang.IllegalStateException: Incomplete log file in the offset commit log",
    ],
)
def test_a_file_that_is_gone_is_a_damaged_checkpoint_and_no_restart_helps(message: str) -> None:
    problem = explained("hot", Location("app.py", 3), ["failed", message], last_batch=4)
    assert problem.code == "CHECKPOINT_DAMAGED"
    assert "If the stream" not in str(problem)
    assert "everything up to batch 4" in str(problem)
    assert incurable([message]) is not None


def test_a_full_disk_is_no_damaged_checkpoint() -> None:
    text = "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_CHECKPOINT] x\nNo space left on device"
    assert explained("hot", Location("app.py", 3), [text], last_batch=4).code == "QUERY_FAILED"
    assert incurable(["java.io.IOException: No space left on device"]) is None


def test_a_machine_too_busy_to_start_python_is_named() -> None:
    text = "Timed out while waiting for the Python worker to connect back"
    problem = explained("hot", Location("app.py", 3), ["failed", text], last_batch=4)
    assert problem.found == text
    assert "when the machine does less" in str(problem)

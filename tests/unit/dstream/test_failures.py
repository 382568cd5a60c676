"""Whose line a failed batch shows, and what was raised there."""

from __future__ import annotations

import pyspark

from headwater.dstream.failures import explained

OF_A_WORKER = """\
An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "{pyspark}/worker.py", line 1500, in main
    process()
  File "/home/ada/pyspark-jobs/counts.py", line 12, in parse
    raise Unreadable(line)
Unreadable: no number: 'x'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1510, in main
    process()
  File "/home/ada/pyspark-jobs/counts.py", line 14, in parse
    raise Skipped from problem
Skipped: line 7

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException
"""


def test_a_workers_error_is_told_with_the_line_of_the_program() -> None:
    text = OF_A_WORKER.format(pyspark=str(pyspark.__path__[0]))
    problem = explained(RuntimeError(text), 4, is_kept=True)
    assert problem.where is not None
    assert (problem.where.file, problem.where.line) == ("/home/ada/pyspark-jobs/counts.py", 14)
    assert "Skipped: line 7" in str(problem)
    assert "An error occurred" not in str(problem)


def test_an_error_of_the_driver_is_told_as_it_is() -> None:
    try:
        raise KeyError("absent")
    except KeyError as raised:
        problem = explained(raised, 4, is_kept=False)
    assert problem.where is not None
    assert problem.where.file == __file__
    assert "KeyError: 'absent'" in str(problem)

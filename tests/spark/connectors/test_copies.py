"""Lines of PostgreSQL's COPY."""

from __future__ import annotations

from pyspark.sql import SparkSession

from headwater.connectors.copies import copy_lines


def line(spark: SparkSession, values: str) -> str:
    [found] = copy_lines(spark.sql(f"SELECT {values}")).collect()
    return bytes(found[0]).decode()


def test_null_is_not_the_text_that_stands_for_it(spark: SparkSession) -> None:
    assert (
        line(spark, r"string(NULL) AS a, r'\N' AS b, '' AS c, int(NULL) AS d")
        == "\\N\t\\\\N\t\t\\N\n"
    )


def test_what_ends_a_value_or_a_line_is_escaped(spark: SparkSession) -> None:
    assert line(spark, r"'a\tb\nc\rd', r'\t'") == "a\\tb\\nc\\rd\t\\\\t\n"


def test_bytes_are_written_in_hexadecimal(spark: SparkSession) -> None:
    assert line(spark, "X'00FF', X''") == "\\\\x00FF\t\\\\x\n"


def test_a_moment_has_its_offset_whatever_the_zone(spark: SparkSession) -> None:
    values = "timestamp '2026-01-01 00:00:00.5Z', timestamp_ntz '2026-01-01 12:00'"
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        found = line(spark, values)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    assert found == "2026-01-01 00:00:00.5+00\t2026-01-01 12:00:00+00\n"


def test_numbers_are_written_in_full(spark: SparkSession) -> None:
    found = line(spark, "float(0.1), double('-Infinity'), 1.50BD, -1Y, true, double('NaN')")
    assert found == "0.10000000149011612\t-Infinity\t1.50\t-1\ttrue\tNaN\n"

"""What Spark itself says about a query before it is started."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.definitions import OutputMode
from headwater.event_time.entries import AGGREGATION, is_stateful, kind_of, time_of_timers
from headwater.event_time.plans import analyzed, class_name, items, plan_nodes
from headwater.jvm.classes import java_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class StatefulOperator:
    """One operator that keeps state; `is_bounded` where a watermark lets Spark drop old state."""

    kind: str
    is_bounded: bool
    shape: str = ""
    """What its state is made of, in words that stay the same as long as the state fits."""
    timers: str | None = None
    """By which time it is called without a row; a batch run never does."""


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """A query's analysed plan, looked at once."""

    columns: tuple[str, ...]
    is_streaming: bool
    stateful: tuple[StatefulOperator, ...]
    random: tuple[str, ...]
    """Expressions whose value differs when a batch runs again, in Spark's words."""
    python: tuple[str, ...]
    """Python functions that rows pass through."""
    order_dependent: tuple[str, ...] = ()
    """Aggregates that may give another value when their rows come in another order."""

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(operator.kind for operator in self.stateful))

    @property
    def timers(self) -> frozenset[str]:
        """The times by which operators are called without a row."""
        return frozenset(operator.timers for operator in self.stateful if operator.timers)

    @property
    def is_aggregation(self) -> bool:
        return AGGREGATION in self.kinds


def facts_of(frame: DataFrame) -> QueryFacts:
    plan = analyzed(frame)
    checker = _checker(frame)
    nodes = list(plan_nodes(plan))
    stateful = (_stateful(node, checker) for node in nodes)
    return QueryFacts(
        columns=tuple(frame.columns),
        is_streaming=bool(plan.isStreaming()),
        stateful=tuple(operator for operator in stateful if operator),
        random=tuple(dict.fromkeys(_random(nodes))),
        python=tuple(dict.fromkeys(_python(plan, nodes, frame.sparkSession))),
        order_dependent=tuple(dict.fromkeys(_order_dependent(nodes))),
    )


def mode_problem(frame: DataFrame, mode: OutputMode) -> str | None:
    """Why Spark refuses the query in this mode; None where it does not."""
    return _refusal(_checker(frame).checkForStreaming, frame, mode)


def continuous_problem(frame: DataFrame, mode: OutputMode) -> str | None:
    """Why Spark refuses the query under the continuous trigger."""
    return _refusal(_checker(frame).checkForContinuous, frame, mode)


def real_time_problems(frame: DataFrame) -> list[str]:
    """Operators of the physical plan that Spark's real-time mode does not allow.

    Spark itself finds out in the first batch only.
    """
    allowed = _real_time_operators(frame)
    found = [name for name in _above_streams(physical_plan(frame)) if name not in allowed]
    return [_in_words(name) for name in dict.fromkeys(found)]


def physical_plan(frame: DataFrame, *, style: str = "simple") -> str:
    """Spark's explanation of a streaming query, as it would run in append mode."""
    jvm: Any = frame.sparkSession._jvm
    # Spark explains a query of SQL text as a batch, and fails, unless it starts from the
    # analysed plan.
    datasets = jvm.org.apache.spark.sql.classic.Dataset
    dataset = datasets.ofRows(frame._jdf.sparkSession(), analyzed(frame))
    text: str = jvm.PythonSQLUtils.explainString(dataset.queryExecution(), style)
    return text.strip()


def sentence(message: str) -> str:
    """Spark's reason without its code, its SQL state and the plan that follows.

    >>> sentence("[A.B] Invalid streaming output mode: append. It is odd. SQLSTATE: 42KDE;\\nX")
    'it is odd'
    """
    text = message.split("\n", 1)[0].strip()
    text = re.sub(r"^\[[\w.]+\]\s*", "", text)
    text = re.sub(r"\s*SQLSTATE: \w+", "", text).rstrip(" ;.")
    text = re.sub(r"^Invalid streaming output mode: \w+\.\s*", "", text)
    text = re.sub(
        r"^This output mode is not supported for (.*) on streaming .*$", r"not for \1", text
    )
    text = text.replace("not for no streaming aggregations", "not without an aggregation")
    text = re.sub(r"^Streaming real-time mode has the following limitation:\s*", "", text)
    text = text.replace("DataFrames/Datasets", "DataFrames").replace(
        "DataFrame/Dataset", "DataFrame"
    )
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _refusal(check: Callable[[Any, Any], None], frame: DataFrame, mode: OutputMode) -> str | None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    modes = java_class(frame.sparkSession, "org.apache.spark.sql.streaming.OutputMode")
    spark_mode = {
        OutputMode.APPEND: modes.Append,
        OutputMode.UPDATE: modes.Update,
        OutputMode.COMPLETE: modes.Complete,
    }[mode]()
    try:
        check(analyzed(frame), spark_mode)
    except PySparkException as refusal:
        return sentence(getattr(refusal, "_desc", None) or str(refusal))
    except Py4JJavaError as refusal:
        return sentence(str(refusal.java_exception.getMessage()))
    return None


def _checker(frame: DataFrame) -> Any:
    name = "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker"
    return java_class(frame.sparkSession, name)


def _stateful(node: Any, checker: Any) -> StatefulOperator | None:
    if not is_stateful(node):
        return None
    name = str(node.nodeName())
    if name == "Join":
        sides = (node.left().output(), node.right().output())
        is_bounded = all(_has_event_time(s, checker) for s in sides)
        return StatefulOperator(kind_of(node), is_bounded, _state_shape(name, node))
    is_bounded = _is_bounded(name, node, checker)
    shape = _state_shape(name, node)
    return StatefulOperator(kind_of(node), is_bounded, shape, time_of_timers(node))


_NUMBERS = re.compile(r"#\d+L?|-T\d+(ms|s)?\b")
_ALIASES = re.compile(r"\s+AS\s+(`[^`]*`|\w+)")


def _state_shape(name: str, node: Any) -> str:
    """What an operator keeps per key. Names of results and Spark's own numbers do not matter."""
    if name == "Aggregate":
        grouping, results = node.groupingExpressions(), node.aggregateExpressions()
        keys = [str(e.dataType().catalogString()) for e in items(grouping)]
        texts = sorted(_plain_text(e.toString()) for e in items(results) if not _is_column(e))
        return f"aggregation by ({', '.join(keys)}) of {', '.join(texts) or 'nothing'}"
    if name in ("Deduplicate", "DeduplicateWithinWatermark"):
        return f"deduplication by ({_plain_text(node.keys().mkString(', '))})"
    if name == "Join":
        condition = node.condition()
        text = _plain_text(condition.get().toString()) if condition.isDefined() else "nothing"
        return f"{node.joinType().toString()} join on {text}"
    return f"{name} of ({', '.join(map(str, node.schema().fieldNames()))})"


def _is_column(expression: Any) -> bool:
    if class_name(expression) == "Alias":
        expression = expression.child()
    return class_name(expression) in ("AttributeReference", "GetStructField")


def _plain_text(text: Any) -> str:
    return _ALIASES.sub("", _NUMBERS.sub("", str(text)))


def _is_bounded(name: str, node: Any, checker: Any) -> bool:
    if name == "Aggregate":
        return _has_event_time(node.groupingExpressions(), checker)
    if name == "Deduplicate":
        return _has_event_time(node.keys(), checker)
    # Custom state says itself when it ends; a limit is one number.
    return name not in ("Distinct",)


def _has_event_time(expressions: Any, checker: Any) -> bool:
    return any(checker.hasEventTimeCol(expression) for expression in items(expressions))


def _random(nodes: list[Any]) -> Iterator[str]:
    for node in nodes:
        for expression in items(node.expressions()):
            yield from random_parts(expression)


_BY_ORDER = re.compile(r"\b(collect_list|first|last|any_value|listagg|array_agg)\(")
_ROUNDED = re.compile(r"\b(sum|avg|stddev\w*|var\w*|corr|covar\w*)\(")


def _order_dependent(nodes: list[Any]) -> Iterator[str]:
    """Aggregates that may give another value when their rows come in another order."""
    for node in nodes:
        if str(node.nodeName()) != "Aggregate":
            continue
        text = str(node.aggregateExpressions().mkString(" "))
        kinds = {str(column.dataType().typeName()) for column in items(node.output())}
        patterns = [_BY_ORDER, _ROUNDED] if kinds & {"double", "float"} else [_BY_ORDER]
        for pattern in patterns:
            yield from (f"{found}()" for found in pattern.findall(text))


def random_parts(expression: Any) -> Iterator[str]:
    """The functions inside an expression that give another value when they run again."""
    if expression.deterministic():
        return
    parts = [part for child in items(expression.children()) for part in random_parts(child)]
    yield from parts or [_expression_name(expression)]


def _expression_name(expression: Any) -> str:
    if class_name(expression) in _PYTHON_EXPRESSIONS:
        return f"the Python function {expression.name()}, declared non-deterministic"
    return f"{expression.prettyName()}()"


_PYTHON_EXPRESSIONS = ("PythonUDF", "PythonUDAF", "PythonUDTF")


def _python(plan: Any, nodes: list[Any], spark: SparkSession) -> Iterator[str]:
    python = java_class(spark, "org.apache.spark.sql.catalyst.trees.TreePattern").PYTHON_UDF()
    if not plan.containsPattern(python):
        return
    for node in nodes:
        for expression in items(node.expressions()):
            if expression.containsPattern(python):
                yield from _python_parts(expression)


def _python_parts(expression: Any) -> Iterator[str]:
    if class_name(expression) in _PYTHON_EXPRESSIONS:
        yield str(expression.name())
    for child in items(expression.children()):
        yield from _python_parts(child)


def _real_time_operators(frame: DataFrame) -> set[str]:
    jvm: Any = frame.sparkSession._jvm
    runtime = jvm.org.apache.spark.sql.execution.streaming.runtime
    allowlist = getattr(getattr(runtime, "RealTimeModeAllowlist$"), "MODULE$")
    prefix = "org$apache$spark$sql$execution$streaming$runtime$RealTimeModeAllowlist$$"
    names: str = getattr(allowlist, prefix + "allowedOperators")().mkString(",")
    return {name.rsplit(".", 1)[-1].removesuffix("Exec") for name in names.split(",")}


_NODE = re.compile(r"^(?P<indent>[\s:+-]*)(?:\*\(\d+\) |\* |!)?(?P<name>[A-Z]\w*)")


def _above_streams(text: str) -> list[str]:
    """Names of the operators that rows of a stream pass through, from the plan as text.

    >>> _above_streams("Project [a]\\n+- Exchange x\\n   +- StreamingRelation rate")
    ['Project', 'Exchange']
    """
    path: list[tuple[int, str]] = []
    found: dict[tuple[int, str], None] = {}
    for line in text.splitlines():
        match = _NODE.match(line)
        if match is None or line.startswith("=="):
            continue
        depth = len(match["indent"])
        path = [(at, name) for at, name in path if at < depth]
        if match["name"].startswith("StreamingRelation"):
            found.update(dict.fromkeys(path))
        path.append((depth, match["name"]))
    return list(dict.fromkeys(name for _, name in found))


_WORDS = {
    "Exchange": "rows change partitions (a shuffle)",
    "ArrowEvalPython": "a Python function",
    "BatchEvalPython": "a Python function",
    "MapInPandas": "a Python function (mapInPandas)",
    "MapInArrow": "a Python function (mapInArrow)",
    "StateStoreSave": "state (aggregation)",
    "StateStoreRestore": "state (aggregation)",
    "SessionWindowStateStoreSave": "state (session windows)",
    "StreamingDeduplicate": "state (deduplication)",
    "StreamingDeduplicateWithinWatermark": "state (deduplication)",
    "StreamingSymmetricHashJoin": "state (stream-stream join)",
    "FlatMapGroupsInPandasWithState": "state (applyInPandasWithState)",
    "TransformWithStateInPySpark": "state (transformWithState)",
    "StreamingGlobalLimit": "state (limit)",
    "SortMergeJoin": "a join with a table that is too large to broadcast",
}


def _in_words(operator: str) -> str:
    return _WORDS.get(operator, f"the operator {operator}")

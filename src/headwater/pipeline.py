"""`Pipeline`: where a user declares, and from where every way of running is reached."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from headwater import schemas
from headwater.definitions import (
    NO_GUARD,
    PERFECT,
    Body,
    Definition,
    Definitions,
    Guarantee,
    History,
    Late,
    Limit,
    Lookup,
    Model,
    OnDataLoss,
    OnReject,
    OutputMode,
    PythonBody,
    Source,
    Table,
    Trigger,
    View,
    WatermarkPolicy,
    chosen,
    duration_ms,
    kind_of,
)
from headwater.errors import (
    DuplicateName,
    InvalidDuration,
    InvalidModel,
    InvalidName,
    Location,
    TrainingRefused,
    UnknownModel,
    UnknownOption,
    UnknownTable,
)
from headwater.events import Event, PipelineStarted, PipelineStopped, Report, both, silent
from headwater.settings import Settings, load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener
    from pyspark.sql.types import StructType

    from headwater.connectors.interface import Connector
    from headwater.learning import Training
    from headwater.planning import Plan
    from headwater.runtime.claims import Claim
    from headwater.runtime.running import RunningPipeline

P = ParamSpec("P")
R = TypeVar("R")
_NAME = re.compile(r"^[A-Za-z](_?[A-Za-z0-9])*_?$")
_PACKAGE = str(Path(__file__).parent)


class Handle:
    """A declared source, lookup, model, view or table; `reads=` takes it in place of a name."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition

    @property
    def name(self) -> str:
        return self.definition.name

    def __repr__(self) -> str:
        return f"<{kind_of(self.definition)} {self.name}>"


class FunctionHandle(Handle, Generic[P]):
    """A view or table that stays callable as the function it decorates."""

    def __init__(self, definition: View | Table, function: Callable[P, DataFrame]) -> None:
        super().__init__(definition)
        self._function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> DataFrame:
        return self._function(*args, **kwargs)


class ModelHandle(Handle, Generic[P, R]):
    """A model that stays callable as the function it decorates."""

    def __init__(self, definition: Model, function: Callable[P, R]) -> None:
        super().__init__(definition)
        self._function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)


class Pipeline:
    """The declarations of one application.

    >>> from headwater.connectors import rate
    >>> app = Pipeline("app")
    >>> app.source("ticks", rate())
    <source ticks>
    >>> @app.table
    ... def even(ticks):
    ...     return ticks.where("value % 2 = 0")
    >>> even
    <table even>

    Declaring starts nothing. `settings` defaults to those of the working folder at the moment
    the pipeline first runs.
    """

    def __init__(self, name: str, *, settings: Settings | None = None) -> None:
        if not _NAME.match(name):
            raise InvalidName("pipeline", name, where=caller())
        self.name = name
        self._settings = settings
        self._definitions: dict[str, Definition] = {}
        self._listeners: list[StreamingQueryListener] = []

    # Declaring

    def source(
        self,
        name: str,
        connector: Connector,
        *,
        schema: str | StructType | None = None,
        event_time: str | None = None,
        watermark: str | None = None,
        max_ahead: str | None = None,
        max_per_batch: int | str | Limit | None = None,
        on_reject: str | OnReject = OnReject.CAPTURE,
        on_data_loss: str | OnDataLoss = OnDataLoss.FAIL,
    ) -> Handle:
        """Declares an unbounded input table.

        `watermark` is a delay, or `"perfect"` for a source that promises order. Rows stamped
        further than `max_ahead` after the batch's own time are rejected before they can move the
        watermark (default: 1 day; `"off"`).
        """
        where = caller()
        if watermark is not None and watermark != PERFECT:
            duration_ms(watermark, what="watermark", where=where)
        if max_ahead is not None and max_ahead != NO_GUARD:
            duration_ms(max_ahead, what="max_ahead", where=where)
        limit = None if max_per_batch is None else Limit.parse(max_per_batch, where=where)
        return self._declare(
            Source(
                name=name,
                connector=connector,
                schema=schemas.schema_text(schema, name=name, where=where),
                event_time=event_time,
                watermark=watermark,
                max_ahead=max_ahead,
                max_per_batch=limit,
                on_reject=chosen(OnReject, on_reject, what="on_reject", where=where),
                on_data_loss=chosen(OnDataLoss, on_data_loss, what="on_data_loss", where=where),
                location=where,
            )
        )

    def lookup(
        self,
        name: str,
        connector: Connector,
        *,
        schema: str | StructType | None = None,
        reload: str | None = None,
    ) -> Handle:
        """Declares a static input table; with `reload="5 minutes"` a changed one is picked up
        while the pipeline runs."""
        where = caller()
        text = schemas.schema_text(schema, name=name, where=where)
        if reload is not None:
            duration_ms(reload, what="reload", where=where)
        return self._declare(Lookup(name, connector, text, reload, location=where))

    def model(
        self,
        *,
        trained_on: str | Handle,
        every: str | None = None,
        schema: str | StructType | None = None,
        evaluate: Callable[[Any, DataFrame], float] | None = None,
        held_back: float = 0.2,
        history: str | None = None,
        name: str | None = None,
    ) -> Callable[[Callable[P, R]], ModelHandle[P, R]]:
        """Declares what is learnt from the stored rows of a table, in versions.

        The function takes those rows and returns a DataFrame with the columns of `schema` or,
        without a schema, any Python object. A running pipeline trains it `every` so often. With
        `evaluate(model, rows) -> float` (higher is better) a part of the rows, `held_back`, is not
        learnt from, and a version is published only where it scores better on them than the one
        in use. With a `history` such as "30 days of at" older rows are not looked at, neither to
        learn nor to judge. Tables read a model like a lookup; without a version it is empty.
        """
        where = caller()
        if every is not None and duration_ms(every, what="every", where=where) <= 0:
            raise InvalidDuration("every", every, where=where)

        def declare(function: Callable[P, R]) -> ModelHandle[P, R]:
            body, line = _python_body(function), _line_of(function)
            called = name or function.__name__
            if len(body.parameters) != 1:
                found = f"its function takes {len(body.parameters)} parameters"
                remedy = "it takes one: the rows of the table it is trained on"
                raise InvalidModel(called, found, remedy, where=line)
            if evaluate is not None and not 0 < held_back < 1:
                remedy = "a part of the rows, such as held_back=0.2"
                raise InvalidModel(called, f"held_back is {held_back}", remedy, where=line)
            text = schemas.schema_text(schema, name=called, where=where)
            target = trained_on.name if isinstance(trained_on, Handle) else trained_on
            model = Model(
                called,
                body,
                target,
                every,
                text,
                evaluate,
                held_back,
                history=_history(called, history, line),
                location=line,
            )
            self._declare(model)
            return ModelHandle(model, function)

        return declare

    @overload
    def view(self, function: Callable[P, DataFrame]) -> FunctionHandle[P]: ...
    @overload
    def view(
        self, *, name: str | None = None, reads: Mapping[str, str | Handle] | None = None
    ) -> Callable[[Callable[P, DataFrame]], FunctionHandle[P]]: ...
    def view(
        self,
        function: Callable[P, DataFrame] | None = None,
        *,
        name: str | None = None,
        reads: Mapping[str, str | Handle] | None = None,
    ) -> Any:
        """Declares a DataFrame function that is inlined where it is used."""

        def declare(function: Callable[P, DataFrame]) -> FunctionHandle[P]:
            view = View(
                name=name or function.__name__,
                body=_python_body(function),
                reads=_read_names(reads),
                location=_line_of(function),
            )
            self._declare(view)
            return FunctionHandle(view, function)

        return declare if function is None else declare(function)

    @overload
    def table(self, function: Callable[P, DataFrame]) -> FunctionHandle[P]: ...
    @overload
    def table(
        self,
        *,
        into: Connector | None = None,
        key: str | Sequence[str] = (),
        order_by: str | Sequence[str] = (),
        mode: str | OutputMode | None = None,
        trigger: str | Trigger = "default",
        guarantee: str | Guarantee | None = None,
        late: str | Late | None = None,
        watermarks: str | WatermarkPolicy = WatermarkPolicy.MINIMUM,
        unbounded_state: bool = False,
        name: str | None = None,
        reads: Mapping[str, str | Handle] | None = None,
    ) -> Callable[[Callable[P, DataFrame]], FunctionHandle[P]]: ...
    def table(
        self,
        function: Callable[P, DataFrame] | None = None,
        *,
        name: str | None = None,
        reads: Mapping[str, str | Handle] | None = None,
        **arguments: Any,
    ) -> Any:
        """Declares a result table: one streaming query.

        Without `into` it is a managed Delta table. `key` names the columns that tell rows apart
        where a row replaces another; `order_by` says which of several is the last, and is needed
        where the query does not make one row per key.
        `guarantee="at_least_once"` gives up exactly-once for asynchronous progress tracking where
        Spark can do it. `late` says what becomes of late rows (`"drop"`, `"capture"`,
        `"allow 1 hour"`, `"refire 1 hour"`), and
        `watermarks` which of several sources' watermarks counts. State that nothing ever removes
        needs `unbounded_state=True`.
        """

        _known_arguments(arguments, caller())

        def declare(function: Callable[P, DataFrame]) -> FunctionHandle[P]:
            table = table_definition(
                name or function.__name__,
                _python_body(function),
                reads=_read_names(reads),
                where=_line_of(function),
                **arguments,
            )
            self._declare(table)
            return FunctionHandle(table, function)

        return declare if function is None else declare(function)

    def sql(self, name: str, select: str, **arguments: Any) -> Handle:
        """Declares a result table by a SELECT statement; takes the arguments of `table`."""
        from headwater import sql

        where = caller()
        _known_arguments(arguments, where)
        return self._declare(
            table_definition(name, sql.select_body(select, where=where), where=where, **arguments)
        )

    def sql_file(self, path: str | Path) -> list[Handle]:
        """Declares everything that a file of SQL statements declares."""
        from headwater import sql

        path = Path(path)
        return [self._declare(d) for d in sql.parse(path.read_text(), file=str(path))]

    def include(self, other: Pipeline) -> None:
        """Takes over all declarations of another pipeline."""
        for definition in other._definitions.values():
            self._declare(definition)
        self._listeners += other._listeners

    def listen(self, listener: StreamingQueryListener) -> None:
        """Spark's own listener hears the queries while the pipeline runs as a stream."""
        self._listeners.append(listener)

    def definitions(self) -> Definitions:
        return Definitions(self.name, dict(self._definitions))

    # Running

    def use_settings(self, settings: Settings) -> None:
        """Replaces the settings; the command line calls this before it runs an application."""
        self._settings = settings

    @property
    def settings(self) -> Settings:
        if self._settings is None:
            self._settings = load()
        return self._settings

    def plan(
        self,
        *,
        tables: Sequence[str] | None = None,
        trigger: Trigger | None = None,
        report: Report = silent,
        for_batch: bool = False,
    ) -> Plan:
        """What a start would do and with which guarantee; starts no query."""
        from headwater.planning import make_plan

        return make_plan(
            self.definitions(),
            self.settings,
            tables=tables,
            trigger=trigger,
            report=report,
            for_batch=for_batch,
        )

    def start(
        self,
        *,
        tables: Sequence[str] | None = None,
        trigger: str | Trigger | None = None,
        report: Report = silent,
        app: str | None = None,
        plan: Plan | None = None,
        claim: Claim | None = None,
    ) -> RunningPipeline:
        """Starts every table (or those named) as a streaming query and returns at once.

        A `plan` that was made before is started as it is, in place of a new one; a `claim` that
        was taken before is held.
        """
        from headwater.runtime.running import RunningPipeline

        override = None if trigger is None else Trigger.parse(trigger, where=caller())
        plan = plan or self.plan(tables=tables, trigger=override, report=report)
        plan.require_startable()
        run = RunningPipeline(
            plan.spark,
            plan.graph,
            plan.queries,
            self.settings,
            both(report, self._let_listen(plan.spark)),
            upstream=plan.inputs,
            app=app,
            claim=claim,
            companion=self._training(plan, override),
        )
        return run.start()

    def _training(self, plan: Plan, trigger: Trigger | None) -> Training | None:
        """What trains models beside the queries; a run that ends by itself trains none."""
        from headwater.learning import Training

        known = {*plan.tables, *plan.upstream}
        models = [m for m in self.definitions().models.values() if m.trained_on in known]
        is_bounded = trigger is not None and trigger.is_bounded
        return None if is_bounded or not models else Training(models)

    def train(self, model: str, *, report: Report = silent) -> int:
        """Trains a model once on what its table holds now; the version that was published."""
        from headwater.learning import Trainer
        from headwater.runtime.batch import frames_for
        from headwater.runtime.models import ModelStore

        models = self.definitions().models
        if model not in models:
            raise UnknownModel(model, models)
        plan = self.plan(report=report, for_batch=True)
        sinks = {query.name: query.sink for query in plan.queries}
        frames = frames_for(plan.spark, plan.graph, self.settings, sinks)
        store = ModelStore(frames.storage, models[model], plan.spark)
        trained = Trainer(store, lambda: frames.stored(models[model].trained_on), report).train()
        assert trained is not None
        if trained.problem is not None:
            raise TrainingRefused(model, trained.problem)
        return trained.version

    def refresh(
        self, *, tables: Sequence[str] | None = None, report: Report = silent
    ) -> RunningPipeline:
        """Processes everything new in several batches and stops; raises what a query raised."""
        run = self.start(tables=tables, trigger=Trigger.available_now(), report=report)
        try:
            run.await_termination()
        finally:
            run.stop()
        run.raise_failure()
        return run

    def batch(self, *, report: Report = silent) -> dict[str, DataFrame]:
        """Views, tables and rejected records over the bounded input, as DataFrames by name;
        writes nothing."""
        from headwater.runtime.batch import frames_of

        plan = self.plan(report=report, for_batch=True)
        sinks = {query.name: query.sink for query in plan.queries}
        return frames_of(plan.spark, plan.graph, self.settings, sinks)

    def replace(
        self,
        *,
        tables: Sequence[str] | None = None,
        replaces_streams: bool = False,
        report: Report = silent,
    ) -> list[str]:
        """Writes the batch result of every table (or those named) in place of its content."""
        from headwater.runtime.batch import replace_tables

        plan = self.plan(tables=tables, report=report, for_batch=True)
        return replace_tables(
            plan.spark, plan.graph, self.settings, plan.queries, replaces_streams=replaces_streams
        )

    def preview(self, name: str, *, rows: int = 20) -> None:
        """Prints the first rows that a table or view gives over the input that is there now."""
        frames = self.batch()
        if name not in frames:
            raise UnknownTable(name, frames)
        frames[name].show(rows, truncate=False)

    def _let_listen(self, spark: SparkSession) -> Report:
        """Adds the listeners when the pipeline starts and removes them at its end."""

        def report(event: Event) -> None:
            if isinstance(event, PipelineStarted):
                for listener in self._listeners:
                    spark.streams.addListener(listener)
            if isinstance(event, PipelineStopped):
                for listener in self._listeners:
                    spark.streams.removeListener(listener)

        return report

    def _declare(self, definition: Definition) -> Handle:
        kind, name, where = kind_of(definition), definition.name, definition.location
        if not _NAME.match(name):
            raise InvalidName(kind, name, where=where)
        if name in self._definitions:
            raise DuplicateName(name, self._definitions[name].location, where=where)
        self._definitions[name] = definition
        return Handle(definition)


_TABLE_ARGUMENTS = (
    "into",
    "key",
    "order_by",
    "mode",
    "trigger",
    "guarantee",
    "late",
    "watermarks",
    "unbounded_state",
)


def _known_arguments(arguments: Mapping[str, Any], where: Location) -> None:
    for name in arguments:
        if name not in _TABLE_ARGUMENTS:
            raise UnknownOption("a table", name, (*_TABLE_ARGUMENTS, "name", "reads"), where=where)


def table_definition(
    name: str,
    body: Body,
    *,
    where: Location,
    into: Connector | None = None,
    key: str | Sequence[str] = (),
    order_by: str | Sequence[str] = (),
    mode: str | OutputMode | None = None,
    trigger: str | Trigger = "default",
    guarantee: str | Guarantee | None = None,
    late: str | Late | None = None,
    watermarks: str | WatermarkPolicy = WatermarkPolicy.MINIMUM,
    unbounded_state: bool = False,
    reads: Mapping[str, str] | None = None,
) -> Table:
    """A `Table` from what stood at the edge: strings become types here."""
    return Table(
        name=name,
        body=body,
        reads=dict(reads or {}),
        into=into,
        key=(key,) if isinstance(key, str) else tuple(key),
        order_by=(order_by,) if isinstance(order_by, str) else tuple(order_by),
        mode=None if mode is None else chosen(OutputMode, mode, what="mode", where=where),
        trigger=Trigger.parse(trigger, where=where),
        guarantee=None
        if guarantee is None
        else chosen(Guarantee, guarantee, what="guarantee", where=where),
        late=None if late is None else Late.parse(late, where=where),
        watermarks=chosen(WatermarkPolicy, watermarks, what="watermarks", where=where),
        unbounded_state=unbounded_state,
        location=where,
    )


def _python_body(function: Callable[..., Any]) -> PythonBody:
    return PythonBody(function, tuple(inspect.signature(function).parameters))


def _read_names(reads: Mapping[str, str | Handle] | None) -> dict[str, str]:
    return {
        parameter: target.name if isinstance(target, Handle) else target
        for parameter, target in (reads or {}).items()
    }


def _history(model: str, text: str | None, where: Location) -> History | None:
    if text is None:
        return None
    with contextlib.suppress(InvalidDuration):
        history = History.parse(text)
        if history.ms > 0:
            return history
    remedy = 'a duration of a column, such as history="30 days of at"'
    raise InvalidModel(model, f"history is {text!r}", remedy, where=where)


def _line_of(function: Callable[..., Any]) -> Location:
    code = inspect.unwrap(function).__code__
    return Location(code.co_filename, code.co_firstlineno)


def caller() -> Location:
    """The line of the user's code that called into Headwater."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno)

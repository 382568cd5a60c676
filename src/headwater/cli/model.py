"""The versions of a pipeline's models: which there are, how they came about and which one is used.
A running pipeline takes another choice with its next batch.

    headwater model list
    headwater model show baseline 3 --rows 10
    headwater model train baseline
    headwater model rollback baseline       back to the version before, and stay there
    headwater model pin baseline 3
    headwater model unpin baseline          the newest published version again
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headwater.cli import options
from headwater.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from headwater.cli.app import Application
    from headwater.runtime.models import ModelStore, Version

SUMMARY = "list, show, train, pin and roll back the versions of models"

_ACTIONS = ("list", "show", "train", "pin", "unpin", "rollback")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=_ACTIONS)
    parser.add_argument("model", nargs="?", metavar="MODEL", help="of all actions but list")
    parser.add_argument("version", nargs="?", type=int, metavar="VERSION", help="of pin and show")
    parser.add_argument("--app", metavar="APP", help="the application (default as in run)")
    parser.add_argument(
        "--rows", type=int, default=0, metavar="N", help="of show: so many rows of the version"
    )
    options.add_settings(parser)


def run(args: argparse.Namespace) -> int:
    from headwater.cli.app import load_app
    from headwater.cli.printing import step_printer
    from headwater.errors import UnknownModel

    application = load_app(args.app, flags=options.flags(args), report=step_printer())
    models = application.pipeline.definitions().models
    if args.action == "list":
        with _stores(application, needs_spark=False) as stores:
            _list(stores)
        return ExitCode.OK
    if args.model not in models:
        raise UnknownModel(args.model or "", models)
    needs_spark = args.action == "train" or args.rows > 0
    with _stores(application, needs_spark=needs_spark) as stores:
        _act(args, application, stores[args.model])
    return ExitCode.OK


@contextmanager
def _stores(application: Application, *, needs_spark: bool) -> Iterator[dict[str, ModelStore]]:
    """The models' versions. A session is opened only where rows or a remote storage need one."""
    from headwater.cli.printing import step_printer
    from headwater.cli.sessions import session_for
    from headwater.runtime.models import ModelStore
    from headwater.runtime.storage import Storage

    storage = Storage(application.settings.storage_root, application.pipeline.name)
    models = application.pipeline.definitions().models
    if storage.is_local and not needs_spark:
        yield {name: ModelStore(storage, model) for name, model in models.items()}
        return
    with session_for(application, report=step_printer()) as spark:
        yield {name: ModelStore(storage, model, spark) for name, model in models.items()}


def _act(args: argparse.Namespace, application: Application, store: ModelStore) -> None:
    from headwater.errors import UnknownVersion

    name = store.model.name
    if args.action == "show":
        _show(store, args.version, args.rows)
    elif args.action == "train":
        from headwater.observe.lines import LinePrinter

        application.pipeline.train(name, report=LinePrinter().report)
    elif args.action == "pin":
        if args.version is None:
            raise UnknownVersion(name, "say which version", [v.version for v in store.usable()])
        store.pin(args.version)
        print(f"{name}: version {args.version} is used until it is unpinned")
    elif args.action == "unpin":
        print(f"{name}: version {store.unpin()} is used, and newer ones as they are published")
    else:
        print(f"{name}: back to version {store.rollback()}, used until it is unpinned")


def _list(stores: dict[str, ModelStore]) -> None:
    from headwater.observe.grid import grid

    rows = []
    for name, store in stores.items():
        used, versions = store.used(), store.versions()
        score = next((v.score for v in versions if v.version == used.version), None)
        rows.append(
            (
                name,
                store.model.trained_on,
                store.model.every or "when asked",
                str(len(versions)),
                _used_words(used.version, is_pinned=used.is_pinned),
                "" if score is None else f"{score:.4g}",
                versions[-1].trained_at if versions else "",
            )
        )
    columns = ("model", "trained on", "every", "trainings", "used", "score", "last training")
    print(grid(columns, rows) if rows else "the pipeline declares no model")


def _show(store: ModelStore, version: int | None, rows: int) -> None:
    from headwater.errors import UnknownVersion
    from headwater.observe.grid import grid

    known = {v.version: v for v in store.versions()}
    if version is not None and version not in known:
        raise UnknownVersion(store.model.name, f"there is no version {version}", known)
    shown = list(known.values()) if version is None else [known[version]]
    used = store.used()
    columns = ("version", "trained at", "seconds", "rows", "score", "in use then", "outcome")
    print(f"{store.model.name}: {_used_words(used.version, is_pinned=used.is_pinned)} is used")
    if shown:
        print(grid(columns, [_cells(v) for v in shown]))
    for refused in (v for v in shown if not v.is_published):
        print(f"version {refused.version} was refused: {refused.problem}")
    if rows:
        frame = store.at(version if version is not None else store.running())
        found = [tuple(str(value) for value in row) for row in frame.limit(rows).collect()]
        print(grid(tuple(frame.columns), found))


def _cells(version: Version) -> tuple[str, ...]:
    return (
        str(version.version),
        version.trained_at,
        f"{version.seconds:.1f}",
        "" if version.rows is None else f"{version.rows:,}",
        "" if version.score is None else f"{version.score:.4g}",
        "" if version.score_of_compared is None else f"{version.score_of_compared:.4g}",
        "published" if version.is_published else "refused",
    )


def _used_words(version: int, *, is_pinned: bool) -> str:
    if version == 0:
        return "none"
    return f"version {version} (pinned)" if is_pinned else f"version {version}"

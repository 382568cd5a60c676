"""`headwater services`: a real broker, database servers and Spark cluster on this machine."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

SUMMARY = "start, stop and list local services: hdfs, kafka, mariadb, postgres, redis, spark"


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    up = actions.add_parser("up", help="start services, or find them running")
    up.add_argument(
        "names", nargs="+", metavar="NAME", help="hdfs, kafka, mariadb, postgres, redis, spark"
    )
    up.add_argument(
        "--port", type=_port, metavar="N", help="listen on this port (one service only)"
    )
    up.add_argument(
        "--workers", type=_count, metavar="N", help="spark only: so many workers (default: 2)"
    )
    down = actions.add_parser("down", help="stop services; their data stays")
    down.add_argument("names", nargs="*", metavar="NAME", help="default: every service started")
    status = actions.add_parser("status", help="list the services started here")
    for action in (up, down, status):
        action.add_argument(
            "--folder",
            type=Path,
            default=Path(".headwater"),
            help="where the services keep data and logs (default: %(default)s)",
        )


def _port(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; expected 1 to 65535")
    return int(text)


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of workers; expected 1 or more")
    return int(text)


def run(args: argparse.Namespace) -> int:
    actions: dict[str, Callable[[argparse.Namespace], int]] = {
        "up": _up,
        "down": _down,
        "status": _status,
    }
    return actions[args.action](args)


def _up(args: argparse.Namespace) -> int:
    from headwater.cli.printing import step_printer
    from headwater.errors import PortForSeveral
    from headwater.local import services

    services.require_known(args.names)
    if args.port is not None and len(args.names) > 1:
        raise PortForSeveral(port=args.port, services=args.names)
    if args.workers is not None:
        services.shape_cluster(args.folder, workers=args.workers)
    for name in args.names:
        found = services.up(args.folder, name, port=args.port, report=step_printer())
        how = "already running" if found.was_running else "started"
        print(f"{name}: {how} on {found.address} (process {found.pid})")
        for key, value in services.connection(args.folder, name).items():
            print(f"  {key:<18} {value}")
        print(f"  {'log':<18} {found.log}")
    print(f"next: {_command('status', args)}, {_command('down', args)}")
    return 0


def _down(args: argparse.Namespace) -> int:
    from headwater.cli.printing import step_printer
    from headwater.local import services

    services.require_known(args.names)
    names = args.names or [known.name for known in services.status(args.folder)]
    for name in names:
        was_running = services.down(args.folder, name, report=step_printer())
        print(f"{name}: {'stopped, its data is kept' if was_running else 'was not running'}")
    if not names:
        print(f"no service was started in {args.folder}")
    return 0


def _status(args: argparse.Namespace) -> int:
    from headwater.errors import EnvironmentProblem
    from headwater.local import services
    from headwater.local.services import ServiceHealth

    known = services.status(args.folder)
    for service in known:
        place = f" on {service.address} (process {service.pid})" if service.address else ""
        print(f"{service.name}: {service.health.value}{place}, log {service.log}")
    if not known:
        print(f"no service was started in {args.folder}; next: {_command('up kafka', args)}")
    broken = [s for s in known if s.health in (ServiceHealth.CRASHED, ServiceHealth.SILENT)]
    for service in broken:
        print(f"next: {_command(f'up {service.name}', args)}")
    return EnvironmentProblem.exit_code if broken else 0


def _command(action: str, args: argparse.Namespace) -> str:
    folder = "" if args.folder == Path(".headwater") else f" --folder {args.folder}"
    return f"headwater services {action}{folder}"

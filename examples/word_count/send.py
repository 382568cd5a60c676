"""A server on port 9999 that sends what is typed to everybody who listens."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading


def main() -> None:
    port = int(os.environ.get("WORD_COUNT_PORT", "9999"))
    listeners: list[socket.socket] = []
    with socket.create_server(("localhost", port)) as server:
        threading.Thread(target=accept, args=(server, listeners), daemon=True).start()
        print(f"Listening on localhost:{port}; type lines, end with Ctrl-D.", flush=True)
        for line in sys.stdin:
            for listener in list(listeners):
                # Whoever checks only that there is a server has left again.
                with contextlib.suppress(OSError):
                    listener.sendall(line.encode())


def accept(server: socket.socket, listeners: list[socket.socket]) -> None:
    with contextlib.suppress(OSError):
        while True:
            listeners.append(server.accept()[0])


if __name__ == "__main__":
    main()

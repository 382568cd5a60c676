"""What the exit code of every command says.

0    done; also after Ctrl-C, SIGTERM or `headwater stop`: the running batch was committed
1    a query failed, a proof did not hold, or Headwater itself failed
2    the command, a setting or a definition is wrong
3    the machine, a service or a connection is not ready
4    the stop deadline passed and a query was stopped by force
130  a second Ctrl-C or SIGTERM: everything was ended at once
"""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    ENVIRONMENT = 3
    FORCED = 4
    INTERRUPTED = 130

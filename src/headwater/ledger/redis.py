"""Redis as its own ledger: who may write a batch of a query, and which batch was the last.

Redis has no transaction over many requests, so a batch is written in parts, each of which leaves
the same content when it comes again, and its number is advanced once all of them are there. Before
that a driver claims the batch: whoever claims it later takes it over, and every part that the
former one still sends is refused by the same script that would write it.

    headwater:ledger  <query>          number of the last batch that was written
                      <query>/writing  the claim on the batch that is being written
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwater.errors import WriterFenced

if TYPE_CHECKING:
    from redis import Redis

LEDGER = "headwater:ledger"

_CONNECT_S = 5.0
_ANSWER_S = 60.0

_HOLDS = f"""
if redis.call('HGET', KEYS[1], ARGV[1] .. '/writing') ~= ARGV[2] then
  return redis.error_reply('{WriterFenced.code}')
end
"""
_CLAIM = """
local last = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '-1')
if last >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1] .. '/writing', ARGV[2])
for i = 2, #KEYS do redis.call('UNLINK', KEYS[i]) end
return 1
"""
_ADVANCE = """
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('HDEL', KEYS[1], ARGV[1] .. '/writing')
return 1
"""


@dataclass(frozen=True, slots=True)
class Server:
    """How to reach a Redis server, from the driver and from executors."""

    url: str
    user: str | None
    password: str | None = field(repr=False)

    def client(self) -> Redis:
        """A client that fails at once where nobody answers: who asks decides what comes next."""
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        login: dict[str, Any] = {"username": self.user, "password": self.password}
        return Redis.from_url(
            self.url,
            socket_connect_timeout=_CONNECT_S,
            socket_timeout=_ANSWER_S,
            retry=Retry(NoBackoff(), 0),
            **{name: value for name, value in login.items() if value is not None},
        )


@dataclass(frozen=True, slots=True)
class RedisLedger:
    """The line of one query, for one driver."""

    query: str
    claim: str = field(default_factory=lambda: uuid.uuid4().hex)

    def take(self, client: Redis, batch: int, *, cleared: Sequence[str] = ()) -> bool:
        """Claims a batch; False where it was written before. What a former claim left in the keys
        `cleared` is removed."""
        keys = [LEDGER, *cleared]
        values = [self.query, self.claim, str(batch)]
        return bool(client.eval(_CLAIM, len(keys), *keys, *values))

    def call(self, client: Redis, script: str, keys: Sequence[str], *values: str) -> Any:
        """Runs a script as long as the claim holds. It finds its own keys from KEYS[2] and its
        values from ARGV[3] on."""
        listed = [LEDGER, *keys]
        return client.eval(guarded(script), len(listed), *listed, self.query, self.claim, *values)

    def last(self, client: Redis) -> int:
        """The last batch that was written; -1 where none was."""
        found: Any = client.hget(LEDGER, self.query)
        return -1 if found is None else int(found)

    def advance(self, client: Redis, batch: int) -> None:
        """Records that a batch is written."""
        self.call(client, _ADVANCE, [], str(batch))

    def forget(self, client: Redis) -> None:
        """For what is written once and has no next batch."""
        client.hdel(LEDGER, self.query, f"{self.query}/writing")


def guarded(script: str) -> str:
    """A script that answers with the code of WriterFenced unless ARGV[1] is a query and ARGV[2]
    the claim on its batch."""
    return _HOLDS + script

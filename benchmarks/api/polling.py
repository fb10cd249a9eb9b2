"""Many clients that look after jobs, in a process of its own.

    python -m benchmarks.api.polling PORT KEY CLIENTS SECONDS INTERVAL_S JOB ...

Each client asks for the state of a job and for its events every INTERVAL_S, over one connection: half of
them the newest page as the stock client does, half what is new since they last looked. A request's time is
from its first byte to the answer's last. HTTP is spoken by hand, so that the clients cost little of the
machine that they share with the service; how much is told. Prints one line of JSON.
"""

import asyncio
import json
import random
import sys
import time
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Seen:
    """What all clients have met."""

    times_s: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class Connection:
    """One connection, on which one request follows the other."""

    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._head = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\n\r\n"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def get(self, path: str) -> Any:
        """The decoded answer. Raises OSError for any answer but 200."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(f"GET /v1{path} HTTP/1.1\r\n{self._head}".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.partition("content-length:")[2].partition("\r\n")[0])
        body = await reader.readexactly(length)
        if not head.startswith("http/1.1 200 "):
            status = head.partition("\r\n")[0]
            raise OSError(f"{path}: {status}")
        return json.loads(body)

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def poll(
    connection: Connection,
    job_id: str,
    *,
    newest: bool,
    until: float,
    interval_s: float,
    seen: Seen,
) -> None:
    """Look after a job until a time of the loop's clock."""
    path, last = f"/fine_tuning/jobs/{job_id}", None
    clock = asyncio.get_running_loop().time
    await asyncio.sleep(random.random() * interval_s)  # noqa: S311 - so that they do not all come at once
    while (began := clock()) < until:
        try:
            await _timed(connection, path, seen)
            query = (
                "limit=20" if newest else "order=asc&limit=100" + (f"&after={last}" if last else "")
            )
            page = await _timed(connection, f"{path}/events?{query}", seen)
            last = page["data"][-1]["id"] if page["data"] else last
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            seen.errors.append(f"{type(error).__name__}: {error}")
            connection.close()
        await asyncio.sleep(max(0.0, began + interval_s - clock()))
    connection.close()


async def _timed(connection: Connection, path: str, seen: Seen) -> Any:
    began = time.perf_counter()
    answer = await connection.get(path)
    seen.times_s.append(time.perf_counter() - began)
    return answer


async def crowd(
    port: int, key: str, clients: int, seconds: float, interval_s: float, jobs: list[str]
) -> dict[str, Any]:
    """All clients at once; what they met."""
    seen = Seen()
    until = asyncio.get_running_loop().time() + seconds
    began = time.process_time()
    async with asyncio.TaskGroup() as group:
        for number in range(clients):
            group.create_task(
                poll(
                    Connection(port, key),
                    jobs[number % len(jobs)],
                    newest=number % 2 == 0,
                    until=until,
                    interval_s=interval_s,
                    seen=seen,
                )
            )
    return {
        "times_s": seen.times_s,
        "errors": seen.errors,
        "cpu_share": (time.process_time() - began) / seconds,
    }


if __name__ == "__main__":
    port, key, clients, seconds, interval_s, *jobs = sys.argv[1:]
    found = asyncio.run(
        crowd(int(port), key, int(clients), float(seconds), float(interval_s), jobs)
    )
    print(json.dumps(found))

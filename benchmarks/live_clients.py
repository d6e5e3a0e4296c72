"""Many pages at one server of `tokenfield explore`: memory, frames a second, and that it still answers at the end.

    python -m benchmarks.live_clients            # 20 pages for 10 minutes
    python -m benchmarks.live_clients 1 --clients 20

Every page plays a run of its own and changes it every few seconds. Memory is compared between the third and fourth tenth of the
time, when programs have been compiled, and the last two: it may differ by 10 percent.
"""

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

LIMIT = 0.10
SAMPLES = 60  # of the memory
ROOT = Path(__file__).parent.parent


def resident(process: int) -> float:
    """Megabytes of memory that a process holds."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def watch(address: str, number: int, until: float, frames: list[int]) -> None:
    """Be one page: start a run, play it, and change it every few seconds."""
    from websockets.asyncio.client import connect

    port, token = re.search(r":(\d+)/\?token=(.*)", address).groups()
    rng = random.Random(number)
    origin = f"http://127.0.0.1:{port}"
    path = f"ws://127.0.0.1:{port}/ws?token={token}"
    async with connect(path, origin=origin, max_size=None, ping_interval=None) as socket:  # pages do not ping either

        async def send(**message) -> None:
            await socket.send(json.dumps(message))

        async def start() -> None:
            n, d = rng.choice((16, 64, 128)), rng.choice((2, 3))
            await send(
                type="start",
                config={
                    "attention": {"beta": rng.uniform(1, 12)},
                    "tokens": {"n": n, "d": d, "seed": rng.randrange(10**6)},
                },
            )
            await send(type="play", speed=1.0, log=False)

        await start()
        change = time.monotonic() + 3 * rng.random()
        while time.monotonic() < until:
            try:
                data = await asyncio.wait_for(socket.recv(), 1.0)
                frames[number] += isinstance(data, bytes)
            except TimeoutError:
                pass
            if time.monotonic() > change:
                change = time.monotonic() + 2 + 4 * rng.random()
                await rng.choice(
                    (start, lambda: send(type="set", beta=rng.uniform(1, 12)), lambda: send(type="step"))
                )()
                await send(type="play", speed=rng.choice((0.5, 1.0, 4.0)), log=False)


async def soak(address: str, process: int, clients: int, minutes: float) -> bool:
    """Run all pages and print memory; return True if it stayed."""
    begun, frames = time.monotonic(), [0] * clients
    until = begun + 60 * minutes
    tasks = [asyncio.create_task(watch(address, k, until, frames)) for k in range(clients)]
    memory: list[float] = []
    while time.monotonic() < until:
        await asyncio.sleep(60 * minutes / SAMPLES)
        memory.append(resident(process))
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    reasons = [repr(each) for each in ended if isinstance(each, BaseException)]
    tenth = [sum(part) / len(part) for part in (memory[k * 6 : k * 6 + 6] for k in range(10)) if part]
    before, after = sum(tenth[2:4]) / 2, sum(tenth[-2:]) / 2
    print("MB in each tenth of the time:", *(f"{each:.0f}" for each in tenth))
    print(
        f"{clients} pages for {minutes:g} minutes: {before:.0f} MB at first, {after:.0f} MB at the end "
        f"({100 * (after / before - 1):+.1f} %), {sum(frames) / clients / (60 * minutes):.1f} frames a second and page, "
        f"{min(frames)} frames at least, {len(reasons)} pages lost {sorted(set(reasons)) or ''}"
    )
    return abs(after / before - 1) <= LIMIT and not reasons and min(frames) > 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("minutes", nargs="?", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=20)
    given = parser.parse_args()
    command = [sys.executable, "-m", "tokenfield", "explore", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        address = next(line.split()[1] for line in server.stdout if line.startswith("open "))
        time.sleep(3)
        kept = asyncio.run(soak(address, server.pid, given.clients, given.minutes))
    finally:
        server.terminate()
        server.wait(10)
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()

"""Load the server on loopback: answers a second and latencies, batched or one by one; broken requests; a full queue.

Each mode starts a server of its own and ends within the seconds and requests that it is given. Run it on an idle
machine; `--cores 1` gives the server one core, and the clients the others.

    python benchmarks/serve.py speed --seconds 10 --json benchmarks/serve.json
    python benchmarks/serve.py endure --minutes 10 --json benchmarks/serve.json
    python benchmarks/serve.py fuzz --bodies 100000 --json benchmarks/serve.json
    python benchmarks/serve.py page --json benchmarks/serve.json

The last one needs Playwright and a Chromium.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from edge_transformer.bench.machine import describe
from edge_transformer.io.files import write_json
from edge_transformer.io.settings import to_dict

CONNECTIONS = (1, 8, 64)
MOST_SECONDS, MOST_MINUTES, MOST_BODIES = 120, 30, 1_000_000
MODEL = "clutrr-small"
RELATIONS = ("mother", "son", "sister", "brother", "daughter", "father")


def chain(people: int, seed: int = 0) -> dict[str, Any]:
    """A family of so many people in a chain."""
    chance = random.Random(seed)
    names = [f"p{number}" for number in range(people)]
    edges = [[a, chance.choice(RELATIONS), b] for a, b in pairwise(names)]
    return {"edges": edges, "query": [names[0], names[-1]]}


QUESTIONS = {
    "smallest": [chain(3, seed) for seed in range(50)],
    "small": [chain(6, seed) for seed in range(50)],
    "large": [chain(20, seed) for seed in range(50)],
}


class Running(NamedTuple):
    """A server process, and where it answers."""

    process: subprocess.Popen[str]
    port: int

    def cpu(self) -> float:
        """Seconds of a core so far: where other programs run, these still tell what an answer costs."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Resident megabytes."""
        text = Path(f"/proc/{self.process.pid}/statm").read_text()
        return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def server(cores: int, *options: str) -> Iterator[Running]:
    """A server of the bundled models in a process of its own; ended by SIGTERM, which must end it well."""
    command = [sys.executable, "-m", "edge_transformer", "serve", "--port", "0", "--threads", str(cores), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        if cores < (os.cpu_count() or 1) and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(process.pid, range(cores))
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("http://"):
            raise SystemExit("the server did not start")
        yield Running(process, int(line.split()[0].rsplit(":", 1)[1]))
    finally:
        process.terminate()
        try:
            code: int | None = process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            code = None
        if code != 0:
            print(f"the server {'did not end' if code is None else f'ended with {code}'}", file=sys.stderr)


# --- a small HTTP client: one that takes less time than the server ----------------------------------------------------


class Connection:
    """A connection that stays open."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, body: bytes, verb: str = "predict") -> tuple[int, bytes]:
        """The status and the body of the answer."""
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        head = f"POST /v1/models/{MODEL}/{verb} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
        found = await reader.readexactly(int(fields["content-length"]))
        if fields.get("connection") == "close":
            self.close()
        return int(lines[0].split()[1]), found

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None


# --- speed ------------------------------------------------------------------------------------------------------------


async def load(port: int, connections: int, bodies: list[bytes], seconds: float) -> dict[str, Any]:
    """Ask over so many connections, each one question at a time."""
    times: list[float] = []
    end = time.perf_counter() + seconds

    async def one(number: int) -> None:
        connection = Connection(port)
        place = number
        while time.perf_counter() < end:
            started = time.perf_counter()
            status, _ = await connection.post(bodies[place % len(bodies)])
            if status != 200:
                raise SystemExit(f"status {status}")
            times.append(time.perf_counter() - started)
            place += 1
        connection.close()

    started = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(connections)))
    took = time.perf_counter() - started
    cuts = statistics.quantiles(times, n=100) if len(times) > 1 else times * 99
    return {
        "connections": connections,
        "requests": len(times),
        "requests_per_second": round(len(times) / took, 1),
        "p50_ms": round(1000 * cuts[49], 2),
        "p99_ms": round(1000 * cuts[98], 2),
    }


def speed(arguments: argparse.Namespace) -> dict[str, Any]:
    """Requests a second and latencies at each number of connections, batched and one by one, in turns."""
    seconds = min(arguments.seconds, MOST_SECONDS)
    found: dict[str, Any] = {}
    patient = ("--max-seconds", "600")  # what is slow is measured, not refused
    with server(arguments.cores, *patient) as batched, server(arguments.cores, *patient, "--gather-ms", "0") as alone:
        for size, questions in QUESTIONS.items():
            bodies = [json.dumps(question).encode() for question in questions]
            for connections in CONNECTIONS:
                for name, running in (("batched", batched), ("one by one", alone)):
                    asyncio.run(load(running.port, connections, bodies, min(seconds, 1)))  # warm
                    before = running.cpu()
                    row = asyncio.run(load(running.port, connections, bodies, seconds))
                    row["requests_per_cpu_second"] = round(row["requests"] / (running.cpu() - before), 1)
                    found.setdefault(size, {}).setdefault(name, []).append(row)
                    print(size, name, row, flush=True)
        found["page"] = page_time(batched.port)
    for size in QUESTIONS:
        for name, rate in (("ratio_at_64", "requests_per_second"), ("cpu_ratio_at_64", "requests_per_cpu_second")):
            batched_rate, alone_rate = (found[size][each][-1][rate] for each in ("batched", "one by one"))
            found[size][name] = round(batched_rate / alone_rate, 2)
            print(size, "batched against one by one at 64 connections:", found[size][name], rate)
    found["full_queue"] = full_queue(arguments)
    if hasattr(os, "getloadavg"):
        found["load_of_the_machine"] = [round(each, 1) for each in os.getloadavg()]
    return found


def page_time(port: int) -> dict[str, Any]:
    """How long all files of the page take, one after another, and their bytes as sent."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        text = client.get("/").text
        names = sorted({part.split('"')[0] for part in text.split('"page/')[1:]})
        started = time.perf_counter()
        responses = [client.get("/"), *(client.get(f"/page/{name}") for name in names), client.get("/v1/models")]
        took = time.perf_counter() - started
    sizes = [len(each.content) for each in responses]
    sent = [int(each.headers["content-length"]) for each in responses]
    found = {"ms": round(1000 * took, 1), "files": len(sizes), "bytes": sum(sizes), "bytes_sent": sum(sent)}
    print("page", found)
    return found


def full_queue(arguments: argparse.Namespace) -> dict[str, Any]:
    """How soon a full queue answers 503."""

    async def fill(port: int) -> list[tuple[int, float]]:
        body = json.dumps({"inputs": [chain(24)] * 64}).encode()

        async def one() -> tuple[int, float]:
            connection, started = Connection(port), time.perf_counter()
            status, _ = await connection.post(body)
            connection.close()
            return status, time.perf_counter() - started

        return await asyncio.gather(*(one() for _ in range(64)))

    with server(arguments.cores, "--max-queue", "128") as running:
        found = asyncio.run(fill(running.port))
    refused = [took for status, took in found if status == 503]
    said = {
        "statuses": dict(Counter(f"{status}" for status, _ in found)),
        "slowest_503_ms": round(1000 * max(refused), 1) if refused else None,
    }
    print("full queue", said)
    return said


# --- endurance --------------------------------------------------------------------------------------------------------


def endure(arguments: argparse.Namespace) -> dict[str, Any]:
    """64 connections with 1 % broken requests and clients that hang up: nothing lost, memory level."""
    seconds = 60 * min(arguments.minutes, MOST_MINUTES)
    counts: Counter[str] = Counter()
    memory: list[tuple[float, float]] = []
    broken = [b"{", b"[]", b'{"edges": 1, "query": 2}', b'{"inputs": [null]}', b"\xff" * 20]

    async def one(port: int, number: int, end: float) -> None:
        chance, connection = random.Random(number), Connection(port)
        while time.perf_counter() < end:
            kind = chance.random()
            question = chain(chance.randint(3, 12), chance.randint(0, 10**6))
            question["id"] = chance.randint(0, 10**9)
            if kind < 0.01:
                status, body = await connection.post(chance.choice(broken))
                counts["broken"] += 1
                counts["broken answered with 4xx"] += 400 <= status < 500 or b'"error"' in body
            elif kind < 0.02:
                gone = Connection(port)
                asking = asyncio.ensure_future(gone.post(json.dumps({"inputs": [question] * 20}).encode()))
                await asyncio.sleep(chance.random() * 0.02)
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
                gone.close()
                counts["hung up"] += 1
            else:
                status, body = await connection.post(json.dumps(question).encode())
                counts["asked"] += 1
                answer = json.loads(body)
                right = status == 200 and answer["id"] == question["id"] and answer["query"] == question["query"]
                counts["answered"] += right
                counts["asked to come again"] += status == 503
        connection.close()

    async def all_of_them(running: Running) -> None:
        started = time.perf_counter()
        clients = asyncio.gather(*(one(running.port, number, started + seconds) for number in range(64)))
        while not clients.done():
            memory.append((time.perf_counter() - started, running.memory()))
            await asyncio.wait([clients], timeout=max(0.5, seconds / 120))
        await clients

    with server(arguments.cores) as running:
        asyncio.run(all_of_them(running))
        with httpx.Client(trust_env=False) as client:
            ready = client.get(f"http://127.0.0.1:{running.port}/ready").status_code
    first = next((size for when, size in memory if when >= min(60, seconds / 10)), memory[0][1])
    found = {
        "seconds": round(seconds),
        **counts,
        "lost": counts["asked"] - counts["answered"] - counts["asked to come again"],
        "memory_after_first_minute_mb": round(first, 1),
        "memory_at_end_mb": round(memory[-1][1], 1),
        "memory_growth_percent": round(100 * (memory[-1][1] / first - 1), 2),
        "ready_at_end": ready == 200,
    }
    print(found)
    return found


# --- broken bodies ----------------------------------------------------------------------------------------------------


def mutated(chance: random.Random) -> bytes:
    """A body that was right, with bytes or parts of its JSON changed."""
    sentences: list[Any] = ["A cat ran .", {"tokens": ["Emma", "slept"], "id": 3}]
    value: Any = chance.choice([chain(chance.randint(2, 6), chance.randint(0, 99)), *sentences])
    if chance.random() < 0.4:
        value = {"inputs": [value] * chance.randint(1, 3), **({"top": 5} if chance.random() < 0.2 else {})}
    for _ in range(chance.randint(0, 2)):
        value = changed(value, chance)
    body = bytearray(json.dumps(value).encode())
    for _ in range(chance.choice([0, 0, 1, 3])):
        place = chance.randrange(len(body) + 1)
        kind = chance.random()
        if kind < 0.4 and place < len(body):
            body[place] = chance.randrange(256)
        elif kind < 0.7:
            body[place:place] = chance.choice([b"[", b"{", b'"', b"\\ud800", b"1e999", b"NaN", b"null", b"\x00"])
        else:
            del body[place : place + chance.randint(1, 6)]
    return bytes(body)


def changed(value: Any, chance: random.Random) -> Any:
    """The same value with one part of it replaced, left out or repeated."""
    odd: list[Any] = [None, True, -1, 10**40, 1.5, "", "\ud800", "x" * 300, [], {}, [[]], {"edges": []}, [None], "all"]
    if chance.random() < 0.25 or not isinstance(value, list | dict) or not value:
        return chance.choice(odd)
    if isinstance(value, list):
        place, found = chance.randrange(len(value)), list(value)
        if chance.random() < 0.3:
            return found[:place] + found[place + 1 :]
        if chance.random() < 0.2:
            return found + found
        found[place] = changed(found[place], chance)
        return found
    name = chance.choice(list(value))
    if chance.random() < 0.2:
        return {key: each for key, each in value.items() if key != name}
    if chance.random() < 0.2:
        return {**value, chance.choice(["", "id", "pairs", "nodes", "absent", "target", "more"]): chance.choice(odd)}
    return {**value, name: changed(value[name], chance)}


def fuzz(arguments: argparse.Namespace) -> dict[str, Any]:
    """Mutated bodies at every operation: no 500, no hang."""
    count = min(arguments.bodies, MOST_BODIES)
    statuses: Counter[str] = Counter()
    slowest = 0.0
    bad: list[str] = []
    places = [(MODEL, "predict"), (MODEL, "explain"), (MODEL, "attention"), ("cogs-small", "parse")]

    async def one(port: int, number: int, each: int) -> None:
        nonlocal slowest
        chance = random.Random(f"{arguments.seed} {number}")
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False) as client:
            for _ in range(each):
                body, (model, verb) = mutated(chance), chance.choice(places)
                started = time.perf_counter()
                headers = {"content-type": "application/json"}
                found = await client.post(f"/v1/models/{model}/{verb}", content=body, headers=headers)
                slowest = max(slowest, time.perf_counter() - started)
                statuses[f"{found.status_code}"] += 1
                if sum(statuses.values()) % 10_000 == 0:
                    print(sum(statuses.values()), dict(statuses), flush=True)
                found.json()
                if found.status_code == 500 or b"its log says why" in found.content:
                    bad.append(f"{verb} {body!r}")

    async def everyone(port: int) -> None:
        await asyncio.gather(*(one(port, number, -(-count // 16)) for number in range(16)))

    with server(arguments.cores) as running:
        asyncio.run(everyone(running.port))
    found = {"bodies": sum(statuses.values()), "statuses": dict(statuses), "slowest_seconds": round(slowest, 3)}
    print(found)
    for each in bad[:10]:
        print("failed:", each[:300])
    return {**found, "failed": len(bad)}


# --- the page in a browser --------------------------------------------------------------------------------------------

LOADS, CHANGES = 15, 20
SETTLED = ".view.family[aria-busy=false] .answer .said"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
# When the first answer is drawn, in milliseconds from the beginning of the visit.
WATCH = """new MutationObserver((_, seen) => {
  if (!document.querySelector(".answer .said")) return;
  window.answered = performance.now();
  seen.disconnect();
}).observe(document, { childList: true, subtree: true });"""
LOADED = """() => {
  const [visit] = performance.getEntriesByType("navigation");
  const files = [visit, ...performance.getEntriesByType("resource")];
  const bytes = files.reduce((sum, each) => sum + each.transferSize, 0);
  return { load: visit.loadEventEnd, answer: window.answered, bytes };
}"""
# From a click that removes the last told edge to the new answer, and to its proof.
REMOVE = """() => new Promise((done) => {
  const [view, start] = [document.querySelector(".view.family"), performance.now()];
  let answer = 0;
  new MutationObserver((_, seen) => {
    answer ||= document.querySelector(".answer .said") !== before ? performance.now() - start : 0;
    if (!answer || view.getAttribute("aria-busy") === "true") return;
    seen.disconnect();
    done([answer, performance.now() - start]);
  }).observe(view, { childList: true, subtree: true, attributes: true });
  const before = document.querySelector(".answer .said");
  [...document.querySelectorAll(".facts .cross")].at(-1).click();
})"""


def page(arguments: argparse.Namespace) -> dict[str, Any]:
    """A visit without a cache, and how soon the answer follows where a told edge is removed."""
    from playwright.sync_api import sync_playwright

    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    visits: list[dict[str, float]] = []
    changes: list[list[float]] = []
    with server(arguments.cores) as running, sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=browser, args=FLAGS)
        for _ in range(1 + LOADS):
            context = opened.new_context(viewport={"width": 1280, "height": 900})
            tab = context.new_page()
            tab.add_init_script(WATCH)
            tab.goto(f"http://127.0.0.1:{running.port}/")
            tab.locator(SETTLED).wait_for()
            tab.wait_for_load_state("load")
            visits.append(tab.evaluate(LOADED))
            context.close()
        tab = opened.new_page()
        tab.goto(f"http://127.0.0.1:{running.port}/")
        for _ in range(1 + CHANGES):
            tab.get_by_role("button", name="Example of 6 relations").click()
            tab.locator(SETTLED).wait_for()
            changes.append(tab.evaluate(REMOVE))
        opened.close()
    del visits[0], changes[0]  # the first ones warm the server
    found: dict[str, Any] = {"visits": LOADS, "bytes": round(visits[0]["bytes"]), "changes": CHANGES}
    for name, values in {
        "load_ms": [each["load"] for each in visits],
        "first_answer_ms": [each["answer"] for each in visits],
        "answer_after_change_ms": [answer for answer, _ in changes],
        "proof_after_change_ms": [proof for _, proof in changes],
    }.items():
        found[name] = {"median": round(statistics.median(values), 1), "most": round(max(values), 1)}
    print(found)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("mode", choices=("speed", "endure", "fuzz", "page"))
    parser.add_argument("--cores", type=int, default=1, help="cores, and threads, of the server")
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement of speed")
    parser.add_argument("--minutes", type=float, default=10, help="of endure")
    parser.add_argument("--bodies", type=int, default=100_000, help="of fuzz")
    parser.add_argument("--seed", type=int, default=0, help="of fuzz")
    parser.add_argument("--json", type=Path, help="write the numbers to this file, beside those of other modes")
    arguments = parser.parse_args()
    found = {"speed": speed, "endure": endure, "fuzz": fuzz, "page": page}[arguments.mode](arguments)
    if arguments.json:
        before = json.loads(arguments.json.read_text()) if arguments.json.exists() else {}
        write_json(arguments.json, {**before, arguments.mode: {"machine": to_dict(describe()), **found}})
    if found.get("failed") or found.get("lost"):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

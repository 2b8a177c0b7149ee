"""How long it takes to go to a random step of a recording with 10,000 steps, and to look around there.

`goto` moves the cursor and gives the step; `goto_and_look` also computes what a workbench shows there: the lanes, the
queues, and the cells of all four tiles; `with_table` adds the table of variables with the range of every tensor, of the
kernel's whole input and output (23 MiB each), too. Times are the process's own (user and system), so that other work on
the machine does not count.
"""

from __future__ import annotations

import contextlib
import json
import random
import statistics
import time

import torch
from record_ratio import chain, values

from pypto_lab.ir.diagnostics import LabError
from pypto_lab.record.recorder import record
from pypto_lab.record.session import Session
from pypto_lab.record.trace import Cells

STEPS = 10_000
LIMIT_MS = 5.0


def look(session: Session) -> int:
    """What a view asks for at a position; the number of things it got."""
    seen = len(session.lanes) + len(session.queues)
    for name in ("t", "u", "v", "w"):
        with contextlib.suppress(LabError):  # not bound yet
            content = session.value(name)
            seen += content.numbers.size if isinstance(content, Cells) else 0
    return seen


def milliseconds(times: list[float]) -> dict[str, float]:
    ordered = sorted(t * 1e3 for t in times)
    return {"median_ms": statistics.median(ordered), "p95_ms": ordered[int(len(ordered) * 0.95)], "max_ms": ordered[-1]}


def main() -> int:
    torch.set_num_threads(1)
    tiles = STEPS // 7 + 1
    recording = record(chain(64, tiles), values(64, tiles))
    session = Session(recording)
    session.goto(len(recording) // 2)
    look(session)
    places = random.Random(0)
    go: list[float] = []
    seen: list[float] = []
    table: list[float] = []
    for _ in range(300):
        position = places.randint(1, len(recording))
        begin = time.process_time()
        session.goto(position)
        moved = time.process_time()
        look(session)
        seen.append(time.process_time() - begin)
        session.variables()
        table.append(time.process_time() - begin)
        go.append(moved - begin)
    result = {
        "steps": len(recording),
        "goto": milliseconds(go),
        "goto_and_look": milliseconds(seen),
        "with_table": milliseconds(table),
        "limit_ms": LIMIT_MS,
    }
    print(json.dumps(result, indent=2))
    return int(result["goto_and_look"]["median_ms"] > LIMIT_MS)  # type: ignore[index]


if __name__ == "__main__":
    raise SystemExit(main())

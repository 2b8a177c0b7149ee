"""How many bytes a recording of a 1000-tile loop stores, against a full snapshot of the live tensors a statement.

A full snapshot clones every tensor a variable of a running function holds (each storage once) after each statement.
"""

from __future__ import annotations

import json

import torch
from record_ratio import TILES, chain, values

from pypto_lab.record.events import TensorValue
from pypto_lab.record.recorder import record
from pypto_lab.record.recording import Recording

LIMIT = 100


def snapshot_bytes(recording: Recording) -> int:
    """Bytes of full snapshots, one after each step: storages that the variables of open functions hold then."""
    recording.materialise()
    trace, sizes = recording.trace, [s.nbytes for s in recording.trace.store.storages]
    held: dict[tuple[int, str], set[int]] = {}
    by_step = recording.index.bindings_of_step
    ends = {f.id: f.end for f in trace.frames}
    total = 0
    for step in range(1, len(recording) + 1):
        for b in by_step.get(step, ()):
            values_of = (trace.values[v] for v in recording.index.tensors_of(b.value))
            held[b.frame, b.name] = {v.storage for v in values_of if isinstance(v, TensorValue)}
        live = {s for (frame, _), storages in held.items() if ends[frame] >= step for s in storages}
        total += sum(sizes[s] for s in live)
    return total


def main() -> int:
    torch.set_num_threads(1)
    results = []
    for n in (32, 64):
        recording = record(chain(n), values(n))
        stored = recording.stored_bytes
        full = snapshot_bytes(recording)
        results.append(
            {
                "tile": n,
                "tiles": TILES,
                "steps": len(recording),
                "stored_mib": stored / 2**20,
                "snapshots_mib": full / 2**20,
                "times_fewer": full / stored,
                "with_every_value_mib": recording.stored_bytes / 2**20,
                "times_fewer_with_every_value": full / recording.stored_bytes,
                "limit": LIMIT,
            }
        )
    print(json.dumps(results, indent=2))
    return int(any(r["times_fewer"] < LIMIT for r in results))


if __name__ == "__main__":
    raise SystemExit(main())

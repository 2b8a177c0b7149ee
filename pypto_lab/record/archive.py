"""A recording as one file, `.ptolab`: a zip of JSON tables and `.npy` arrays that opens with numpy alone.

Members: `manifest.json` (format, schema version, facts), `script.py`, `tables.json`, and arrays (so the file is also a
valid `.npz`). The bytes of storages and replaced regions lie uncompressed in `data.npy` and are mapped, not read.
"""

from __future__ import annotations

import io
import json
import math
import os
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.record.arrays import raw_dtype
from pypto_lab.record.events import (
    EventKind,
    Frame,
    FunctionInfo,
    MappingValue,
    Memory,
    OpaqueValue,
    Order,
    Place,
    QueueEvent,
    ScalarValue,
    SequenceValue,
    SourceSpot,
    Statement,
    StepKind,
    TensorValue,
    Value,
    Write,
)
from pypto_lab.record.recording import Facts, Recording
from pypto_lab.record.store import Bytes, byte_interval
from pypto_lab.record.trace import Binding, StepColumns, Trace

FORMAT = "ptolab"
SCHEMA = 2
"""Version of the tables. A reader opens its own and older versions."""

DATE = (1980, 1, 1, 0, 0, 0)

Row = TypeVar("Row")


def save_archive(recording: Recording, path: Path) -> Path:
    """Writes a recording; the file appears complete or not at all. The same recording gives the same bytes."""
    recording.materialise()
    trace = recording.trace
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with zipfile.ZipFile(temporary, "w") as archive:
            _text(archive, "manifest.json", _json(_manifest(recording)))
            _text(archive, "script.py", trace.script)
            _text(archive, "tables.json", _json(_tables(trace)))
            for name, array in _arrays(trace).items():
                _array(archive, name, array)
            _data(archive, [*trace.store.storages, *trace.store.replaced])
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def open_archive(path: str | Path) -> Recording:
    """Reads a recording. Needs neither torch nor the kernel's sources.

    Raises LabError for a file that is not a recording, is damaged, or comes from a newer version.
    """
    place = Path(path)
    try:
        with zipfile.ZipFile(place) as archive:
            manifest = json.loads(archive.read("manifest.json"))
            _check_version(place, manifest)
            tables = json.loads(archive.read("tables.json"))
            arrays = {n: _load(archive, n) for n in archive.namelist() if n.endswith(".npy") and n != "data.npy"}
            script = archive.read("script.py").decode()
            data = _mapped(place, archive.getinfo("data.npy"))
        trace = _trace(script, tables, arrays, data)
        _check_bounds(trace)
    except OSError as problem:
        raise _refused(place, problem.strerror or str(problem)) from problem
    except (zipfile.BadZipFile, KeyError, ValueError, IndexError, TypeError, struct.error) as problem:
        raise _refused(place, f"not a complete recording ({type(problem).__name__}: {problem})") from problem
    stated = manifest["facts"]
    known = {f.name for f in fields(Facts)}
    stated = {k: tuple(v) if isinstance(v, list) else v for k, v in stated.items() if k in known}
    return Recording(trace, Facts(**stated))


def _refused(path: Path, why: str) -> LabError:
    return LabError(
        [Diagnostic("E503", f"cannot open {path.name}: {why}", hint="give a file that `pypto-lab record` wrote")]
    )


def _check_version(path: Path, manifest: Mapping[str, Any]) -> None:
    if manifest.get("format") != FORMAT:
        raise _refused(path, "it is not a PyPTO Lab recording")
    version = manifest.get("schema")
    if not isinstance(version, int) or version < 1:
        raise _refused(path, f"its schema version {version!r} is not known")
    if version > SCHEMA:
        hint = "update pypto-lab to open it"
        message = f"cannot open {path.name}: it has schema version {version}, this version reads up to {SCHEMA}"
        raise LabError([Diagnostic("E503", message, hint=hint)])


# --- writing ---------------------------------------------------------------------------------------------------------


def _manifest(recording: Recording) -> dict[str, Any]:
    facts = {f.name: getattr(recording.facts, f.name) for f in fields(Facts)}
    counts = {"steps": len(recording), "values": len(recording.trace.values), "lanes": len(recording.trace.lanes)}
    return {"format": FORMAT, "schema": SCHEMA, "facts": facts, "counts": counts}


def _tables(trace: Trace) -> dict[str, Any]:
    names: dict[str, int] = {}
    for b in trace.bindings:
        names.setdefault(b.name, len(names))
    return {
        "sources": trace.sources,
        "lanes": trace.lanes,
        "functions": [asdict(f) for f in trace.functions],
        "statements": [asdict(s) for s in trace.statements],
        "frames": [_row(f) for f in trace.frames],
        "names": list(names),
        "values": [_value_row(v) for v in trace.values],
        "valid_changes": {str(v): changes for v, changes in trace.valid_changes.items()},
        "events": [_row(e) for e in trace.events],
        "writes": [_row(w) for w in trace.store.writes],
        "sizes": [s.nbytes for s in trace.store.storages],
        "replaced": [r.nbytes for r in trace.store.replaced],
        "memories": {str(storage): _row(memory) for storage, memory in trace.memories.items()},
    }


def _arrays(trace: Trace) -> dict[str, Any]:
    names = {name: i for i, name in enumerate(dict.fromkeys(b.name for b in trace.bindings))}
    steps = trace.steps
    return {
        "step_kind.npy": np.array(steps.kind, np.uint8),
        "step_statement.npy": np.array(steps.statement, np.int32),
        "step_frame.npy": np.array(steps.frame, np.int32),
        "step_block.npy": np.array(steps.block, np.int32),
        "step_task.npy": np.array(steps.task, np.int32),
        "iteration_count.npy": np.array([len(i) for i in steps.iterations], np.int32),
        "iteration.npy": np.array([n for i in steps.iterations for n in i], np.int32),
        "binding.npy": np.array([(b.step, b.frame, names[b.name], b.value) for b in trace.bindings], np.int64).reshape(
            -1, 4
        ),
    }


def _row(item: Any) -> list[Any]:
    return [getattr(item, f.name) for f in fields(item)]


_VALUE_KINDS: dict[str, type] = {
    "t": TensorValue, "s": ScalarValue, "l": SequenceValue, "m": MappingValue, "o": OpaqueValue,
}  # fmt: skip


def _value_row(value: Value) -> list[Any]:
    kind = next(k for k, t in _VALUE_KINDS.items() if type(value) is t)
    if isinstance(value, ScalarValue) and isinstance(value.value, float) and not math.isfinite(value.value):
        return ["f", repr(value.value)]
    return [kind, *_row(value)]


def _json(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(x: Any) -> Any:
    if isinstance(x, (np.integer, np.floating)):
        return x.item()
    raise TypeError(f"a recording cannot hold {type(x).__name__}")


def _info(name: str, method: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, DATE)
    info.compress_type = method
    return info


def _text(archive: zipfile.ZipFile, name: str, text: str) -> None:
    archive.writestr(_info(name, zipfile.ZIP_DEFLATED), text)


def _array(archive: zipfile.ZipFile, name: str, array: Any) -> None:
    held = io.BytesIO()
    np.lib.format.write_array(held, array, allow_pickle=False)
    archive.writestr(_info(name, zipfile.ZIP_DEFLATED), held.getvalue())


def _data(archive: zipfile.ZipFile, pieces: Sequence[Bytes]) -> None:
    """All bytes, each piece at a multiple of 64, as one array of bytes."""
    size = sum(_padded(p.nbytes) for p in pieces)
    info = _info("data.npy", zipfile.ZIP_STORED)
    with archive.open(info, "w", force_zip64=True) as out:
        np.lib.format.write_array_header_1_0(out, {"descr": "|u1", "fortran_order": False, "shape": (size,)})
        for piece in pieces:
            out.write(np.ascontiguousarray(piece).data)
            out.write(b"\0" * (_padded(piece.nbytes) - piece.nbytes))


def _padded(size: int) -> int:
    return (size + 63) & ~63


# --- reading ---------------------------------------------------------------------------------------------------------


def _load(archive: zipfile.ZipFile, name: str) -> Any:
    return np.lib.format.read_array(io.BytesIO(archive.read(name)), allow_pickle=False)


def _mapped(path: Path, info: zipfile.ZipInfo) -> Bytes:
    """The bytes of the stored member `data.npy`, mapped from the file."""
    with path.open("rb") as file:
        file.seek(info.header_offset)
        header = struct.unpack("<4s5H3I2H", file.read(30))
        file.seek(info.header_offset + 30 + header[9] + header[10])
        np.lib.format.read_magic(file)
        shape, _, _ = np.lib.format.read_array_header_1_0(file)
        start = file.tell()
    if info.compress_type != zipfile.ZIP_STORED or len(shape) != 1:
        raise ValueError("data.npy is not stored bytes")
    if shape[0] == 0:
        return np.zeros(0, np.uint8)
    return np.asarray(np.memmap(path, np.uint8, "r", start, shape))


def _trace(script: str, tables: Mapping[str, Any], arrays: Mapping[str, Any], data: Bytes) -> Trace:
    trace = Trace(script=script, sources=dict(tables["sources"]), lanes=list(tables["lanes"]))
    trace.functions = [_made(FunctionInfo, f, parameters=tuple) for f in tables["functions"]]
    trace.statements = [
        _made(
            Statement,
            s,
            kind=StepKind,
            targets=tuple,
            reads=tuple,
            loops=tuple,
            spot=_spot,
            origin=_spot,
            places=_places,
        )
        for s in tables["statements"]
    ]
    trace.frames = [Frame(*row) for row in tables["frames"]]
    trace.steps = _steps(arrays)
    names = tables["names"]
    trace.bindings = [Binding(s, f, names[n], v) for s, f, n, v in arrays["binding.npy"].tolist()]
    trace.values = [_value(row) for row in tables["values"]]
    trace.valid_changes = {
        int(v): [(step, tuple(valid) if valid is not None else None) for step, valid in changes]
        for v, changes in tables["valid_changes"].items()
    }
    trace.memories = {int(s): Memory(*row) for s, row in tables.get("memories", {}).items()}
    trace.events = [QueueEvent(row[0], EventKind(row[1]), *row[2:]) for row in tables["events"]]
    pieces = _pieces(data, [*tables["sizes"], *tables["replaced"]])
    trace.store.storages = pieces[: len(tables["sizes"])]
    for row, old in zip(tables["writes"], pieces[len(tables["sizes"]) :], strict=True):
        step, storage, offset, shape, strides, item = row
        trace.store.add_write(Write(step, storage, offset, tuple(shape), tuple(strides), item), old)
    return trace


def _made(type_: type[Row], row: Mapping[str, Any], **convert: Callable[[Any], Any]) -> Row:
    known = {f.name for f in fields(type_)}  # type: ignore[arg-type]
    return type_(**{k: convert[k](v) if k in convert else v for k, v in row.items() if k in known})


def _places(rows: Sequence[Mapping[str, Any] | None]) -> tuple[Place | None, ...]:
    return tuple(None if row is None else Place(**row) for row in rows)


def _spot(row: Mapping[str, Any] | None) -> SourceSpot | None:
    return None if row is None else SourceSpot(**row)


def _steps(arrays: Mapping[str, Any]) -> StepColumns:
    counts, flat = arrays["iteration_count.npy"].tolist(), arrays["iteration.npy"].tolist()
    iterations: list[tuple[int, ...]] = []
    at = 0
    for count in counts:
        iterations.append(tuple(flat[at : at + count]))
        at += count
    kinds = [int(StepKind(k)) for k in arrays["step_kind.npy"].tolist()]
    columns = [arrays[f"step_{name}.npy"].tolist() for name in ("statement", "frame", "block", "task")]
    if {len(c) for c in (*columns, iterations)} != {len(kinds)}:
        raise ValueError("the columns of the steps differ in length")
    statement, frame, block, task = columns
    return StepColumns(kinds, statement, frame, block, task, iterations)


def _value(row: Sequence[Any]) -> Value:
    kind, *rest = row
    match kind:
        case "t":
            storage, dtype, shape, strides, offset, valid, *more = rest  # schema 1 knew no orders
            cut = None if valid is None else tuple(valid)
            order = Order(*(tuple(pair) for pair in more[0])) if more and more[0] is not None else None
            return TensorValue(storage, dtype, tuple(shape), tuple(strides), offset, cut, order)
        case "f":
            return ScalarValue(float(rest[0]))
        case "s":
            return ScalarValue(rest[0])
        case "l":
            return SequenceValue(tuple(rest[0]))
        case "m":
            return MappingValue(tuple(rest[0]), tuple(rest[1]))
        case "o":
            return OpaqueValue(rest[0])
        case _:
            raise ValueError(f"a value of kind {kind!r}")


def _pieces(data: Bytes, sizes: Sequence[int]) -> list[Bytes]:
    out: list[Bytes] = []
    at = 0
    for size in sizes:
        if size < 0 or at + size > data.size:
            raise ValueError("the data ends too early")
        out.append(data[at : at + size])
        at += _padded(size)
    return out


def _check_bounds(trace: Trace) -> None:
    """A view or write that reaches outside its storage would read foreign memory. Raises ValueError."""
    storages, steps = trace.store.storages, len(trace.steps)
    for value in trace.values:
        if isinstance(value, TensorValue):
            low, high = byte_interval(value, raw_dtype(value.dtype).itemsize)
            negative = min((value.offset, *value.strides, *value.shape), default=0) < 0
            ranks_differ = len(value.strides) != len(value.shape)
            if negative or ranks_differ or low < 0 or high > storages[value.storage].size:
                raise ValueError("a value reaches outside its storage")
    for write, old in zip(trace.store.writes, trace.store.replaced, strict=True):
        negative = min((write.offset, *write.strides, *write.shape, write.item - 1)) < 0
        size = math.prod(write.shape) * write.item
        if negative or write.high > storages[write.storage].size or old.size != size or not 0 <= write.step <= steps:
            raise ValueError("a write reaches outside its storage")
    count = len(trace.frames)
    if any(not 0 <= f < count for f in trace.steps.frame) or any(not -1 <= f.parent < f.id for f in trace.frames):
        raise ValueError("a step belongs to no frame")

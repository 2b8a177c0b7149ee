"""Runs one kernel's wrapper on the CPU: compiled against PTO-ISA, called in a process of its own with limits."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pypto_lab.ir import arith
from pypto_lab.ir import dtypes as d
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import FunctionType
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import ScalarType, TensorType
from pypto_lab.ir.visitor import walk
from pypto_lab.pto.process import Outcome, first_line, run
from pypto_lab.pto.simulation.toolchain import CPP, Toolchain, find_toolchain
from pypto_lab.pto.wrapper import kernel_wrapper
from pypto_lab.pto.wrapper.identity import group_siblings

NOT_COMPILED = "E642"
TOO_SLOW = "E643"
STOPPED = "E644"
BAD_VALUES = "E645"
NOT_SIMULATED = "E646"
NO_BFLOAT16 = "E647"

LABEL = "executed: ptoas C++ on PTO-ISA CPU simulation (no pipeline timing; missing sync not visible)"
"""What such a run proves, and what not."""

UNIFIED_BUFFER = {"a2a3": 196608, "a5": 253952}
"""Bytes of a vector core's buffer; the simulation's own default is larger than any device."""

_TORCH: dict[DType, torch.dtype] = {
    d.BOOL: torch.bool, d.INT8: torch.int8, d.INT16: torch.int16, d.INT32: torch.int32, d.INT64: torch.int64,
    d.INDEX: torch.int64, d.UINT8: torch.uint8, d.UINT16: torch.uint16, d.UINT32: torch.uint32,
    d.UINT64: torch.uint64, d.FP16: torch.float16, d.BF16: torch.bfloat16, d.FP32: torch.float32,
    d.FP8E4M3FN: torch.float8_e4m3fn, d.FP8E8M0: torch.float8_e8m0fnu,
}  # fmt: skip
_SCALAR_FORMATS: dict[DType, str] = {
    d.BOOL: "?xxxxxxx", d.INT8: "bxxxxxxx", d.INT16: "hxxxxxx", d.INT32: "ixxxx", d.INT64: "q", d.INDEX: "q",
    d.UINT8: "Bxxxxxxx", d.UINT16: "Hxxxxxx", d.UINT32: "Ixxxx", d.UINT64: "Q", d.FP16: "exxxxxx", d.FP32: "fxxxx",
}  # fmt: skip
_MOST_DIMENSIONS = 5
_BAD_CALL, _OUT_OF_BOUNDS = 90, 91
_MESSAGE = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<text>.*)$", re.M)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a kernel may take: seconds to compile and to run, bytes of memory, bytes of its unified buffer (None: the
    architecture's)."""

    compile_seconds: float = 120.0
    seconds: float = 30.0
    memory: int = 4 << 30
    unified_buffer: int | None = None


@dataclass(frozen=True, slots=True)
class Simulated:
    """A run that came to its end. `outputs` holds every tensor parameter afterwards, by name; what the kernel was
    given stays as it was."""

    outputs: Mapping[str, torch.Tensor]
    seconds: float
    compile_seconds: float
    command: tuple[str, ...]
    toolchain: Toolchain
    messages: str = ""
    label: str = LABEL

    def lines(self) -> list[str]:
        """What was executed, and with what."""
        return [self.label, f"  {self.toolchain.described}", f"  bfloat16: {self.toolchain.bfloat16_note}"]


def simulate(
    function: n.Function,
    assembled: str,
    values: Sequence[Any] | Mapping[str, Any],
    *,
    program: n.Program | None = None,
    arch: str = "a2a3",
    block_num: int = 1,
    toolchain: Toolchain | None = None,
    limits: Limits | None = None,
    cache: Path | None = None,
) -> Simulated:
    """Runs a kernel from the C++ that `ptoas` wrote for it, inside the lab's own wrapper.

    Args:
        values: one for each parameter, in order or by name: tensors of the parameter's type, numbers for scalars.
        program: the program the kernel belongs to, as the last pass leaves it.
        block_num: how many blocks run, one after the other.
        toolchain: what :func:`find_toolchain` finds by default.
        cache: a folder to keep compiled kernels in, by their text and the versions of the tools.

    Raises:
        LabError: E640 or E641 no tools, E642 the wrapper does not compile (the compiler's message at its line), E643
            not done in time, E644 the kernel stopped (assertion, signal, memory, a write outside a tensor), E645 values
            that do not fit the parameters, E646 a kernel that cannot run alone, E647 bfloat16 without a real type;
            what :func:`kernel_wrapper` raises.
    """
    limits = limits or Limits()
    _check_alone(function, program)
    call = _call(function, _ordered(function, values), block_num, _lanes(function), limits.memory)
    text = kernel_wrapper(function, assembled, program)
    toolchain = toolchain or find_toolchain()
    if toolchain.bfloat16 is None and "bfloat16_t" in text:
        message = f"{function.name} uses bfloat16, and {toolchain.compiler} has none: {toolchain.bfloat16_note}"
        hint = "take clang >= 15, or g++ >= 13; without the type the simulation computes with half floats"
        raise LabError([Diagnostic(NO_BFLOAT16, message, function.span, hint=hint)])
    with tempfile.TemporaryDirectory(prefix="pypto_lab_simulation_") as name:
        folder = Path(name)
        started = time.monotonic()
        built, command = _built(function, text, toolchain, limits, folder, cache)
        compiled = time.monotonic()
        answer, messages = _run(function, built, call, arch, limits, folder)
        ended = time.monotonic()
    return Simulated(
        _outputs(function, call, answer), ended - compiled, compiled - started, command, toolchain, messages
    )


def _check_alone(function: n.Function, program: n.Program | None) -> None:
    siblings = () if program is None else group_siblings(function, program)
    pipes = any(isinstance(c, n.OpCall) and re.search(r"initialize_pipe|tpush|tpop", c.op) for c in walk(function))
    if siblings or pipes:
        names = ", ".join(f"`{s.name}`" for s in siblings) or "a kernel on the other core"
        message = f"`{function.name}` passes tiles to {names}; one kernel alone would wait for ever"
        hint = "run the group's `.pto` with pypto_lab, which has both cores"
        raise LabError([Diagnostic(NOT_SIMULATED, message, function.span, hint=hint)])


def _lanes(function: n.Function) -> int:
    return 2 if function.attrs.get("dual_aiv_dispatch") else 1


# --- values -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Call:
    """The bytes a driver reads, and the tensors in the order of the argument words."""

    header: bytes
    tensors: tuple[tuple[n.Param, torch.Tensor], ...]

    def parts(self) -> Iterator[bytes]:
        yield self.header
        for _, tensor in self.tensors:
            yield _bytes(tensor)


def _ordered(function: n.Function, values: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
    names = [p.name for p in function.params]
    if isinstance(values, Mapping):
        missing = [name for name in names if name not in values]
        if missing:
            raise _misfit(function, f"no value for {', '.join(f'`{m}`' for m in missing)}")
        return [values[name] for name in names]
    if len(values) != len(names):
        raise _misfit(function, f"{len(values)} values for {len(names)} parameters ({', '.join(names)})")
    return list(values)


def _misfit(function: n.Function, what: str) -> LabError:
    return LabError([Diagnostic(BAD_VALUES, f"{function.name}: {what}", function.span)])


def _call(function: n.Function, values: Sequence[Any], blocks: int, lanes: int, memory: int) -> _Call:
    if blocks < 1:
        raise _misfit(function, f"a launch has at least one block, not {blocks}")
    tensors: list[tuple[n.Param, torch.Tensor]] = []
    scalars = b""
    for param, value in zip(function.params, values, strict=True):
        if isinstance(param.type, TensorType):
            tensors.append((param, _tensor(function, param, param.type, value)))
        else:
            scalars += _scalar(function, param, value)
    header = struct.pack("<5Q", len(tensors), len(scalars) // 8, blocks, lanes, memory)
    header += b"".join(_descriptor(tensor) for _, tensor in tensors)
    return _Call(header + scalars, tuple(tensors))


def _tensor(function: n.Function, param: n.Param, type_: TensorType, value: Any) -> torch.Tensor:
    wanted = _TORCH.get(type_.dtype)
    if wanted is None:
        raise _misfit(function, f"torch has no tensors of {type_.dtype.name} for `{param.name}`")
    if not isinstance(value, torch.Tensor):
        raise _misfit(function, f"`{param.name}` is a tensor, not a {type(value).__name__}")
    if value.dtype is not wanted:
        raise _misfit(function, f"`{param.name}` holds {type_.dtype.name}, not {value.dtype}")
    known = [arith.constant(x) for x in type_.shape]
    fits = value.ndim == len(known) and all(k is None or k == s for k, s in zip(known, value.shape, strict=True))
    if not fits or value.ndim > _MOST_DIMENSIONS:
        shown = ", ".join("?" if k is None else str(k) for k in known)
        raise _misfit(function, f"`{param.name}` has the shape [{shown}], not {list(value.shape)}")
    return value.detach().to("cpu").contiguous()


def _scalar(function: n.Function, param: n.Param, value: Any) -> bytes:
    dtype = param.type.dtype if isinstance(param.type, ScalarType) else None
    if dtype is d.BF16:
        return _bytes(torch.tensor(float(value), dtype=torch.bfloat16)) + b"\0" * 6
    layout = _SCALAR_FORMATS.get(dtype) if dtype is not None else None
    if layout is None:
        raise _misfit(function, f"`{param.name}` has a type that no number can be handed over as")
    try:
        return struct.pack(f"<{layout}", value)
    except (struct.error, OverflowError, TypeError) as error:
        raise _misfit(function, f"{value!r} is no value for `{param.name}`: {error}") from None


def _descriptor(tensor: torch.Tensor) -> bytes:
    extents = [*tensor.shape, *[1] * (_MOST_DIMENSIONS - tensor.ndim)]
    strides = [*tensor.stride(), *[1] * (_MOST_DIMENSIONS - tensor.ndim)]
    size = tensor.numel() * tensor.element_size()
    return struct.pack("<13Q", size, tensor.ndim, *extents, *strides, 0)


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def _outputs(function: n.Function, call: _Call, answer: bytes) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    at = 0
    for param, tensor in call.tensors:
        size = tensor.numel() * tensor.element_size()
        part = torch.frombuffer(bytearray(answer[at : at + size]), dtype=torch.uint8) if size else torch.empty(0)
        found[param.name] = part.view(tensor.dtype).reshape(tensor.shape) if size else tensor.clone()
        at += size
    return found


# --- compiling and running --------------------------------------------------------------------------------------------


def _built(
    function: n.Function, text: str, toolchain: Toolchain, limits: Limits, folder: Path, cache: Path | None
) -> tuple[Path, tuple[str, ...]]:
    """The compiled kernel with its driver: from the cache, or compiled now."""
    source = folder / f"{function.name}.cpp"
    source.write_text(text, encoding="utf-8")
    core = "aic" if function.func_type is FunctionType.AIC else "aiv"
    flags = [*toolchain.flags(core), f"-I{CPP}"]
    kept = None if cache is None else cache / _key(text, toolchain, flags)
    target = folder / "kernel"
    inputs = [str(source), str(CPP / "driver.cpp")]
    command = (str(toolchain.compiler.path), *flags, *inputs, "-o", str(target), "-ldl", "-lpthread")
    if kept is not None and kept.is_file():
        return kept, command
    _compile(function, command, text, source, limits)
    if kept is None or cache is None:
        return target, command
    cache.mkdir(parents=True, exist_ok=True)
    shutil.copy2(target, kept.with_suffix(f".{os.getpid()}"))
    kept.with_suffix(f".{os.getpid()}").replace(kept)
    return kept, command


def _key(text: str, toolchain: Toolchain, flags: Sequence[str]) -> str:
    driver = "".join((CPP / name).read_text(encoding="utf-8") for name in ("driver.cpp", "tensor.h", "intrinsic.h"))
    parts = [text, driver, toolchain.compiler.stated, toolchain.isa.head, *flags]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _compile(function: n.Function, command: Sequence[str], text: str, source: Path, limits: Limits) -> None:
    try:
        done = run(command, limits.compile_seconds)
    except subprocess.TimeoutExpired:
        message = f"{function.name}: the compiler was not done after {limits.compile_seconds:g} s"
        raise LabError([Diagnostic(TOO_SLOW, message, function.span)]) from None
    except OSError as error:
        message = f"{command[0]} cannot be started ({error.strerror or error})"
        raise LabError([Diagnostic(NOT_COMPILED, message)]) from None
    if done.code == 0:
        return
    errors = [_compile_error(m, source) for m in _MESSAGE.finditer(done.errors)]
    if not errors:
        errors = [Diagnostic(NOT_COMPILED, f"{function.name} does not compile: {first_line(done.errors)}")]
    raise LabError(errors, {source.name: text})


def _compile_error(match: re.Match[str], source: Path) -> Diagnostic:
    file = source.name if Path(match["file"]).name == source.name else match["file"]
    line, column = int(match["line"]), int(match["column"])
    return Diagnostic(NOT_COMPILED, match["text"], Span(file, line, column, line, column + 1))


def _run(
    function: n.Function, program: Path, call: _Call, arch: str, limits: Limits, folder: Path
) -> tuple[bytes, str]:
    """The answer of a run and what the kernel printed."""
    question, answer = folder / "call", folder / "answer"
    with question.open("wb") as file:
        file.writelines(call.parts())
    size = limits.unified_buffer or UNIFIED_BUFFER[arch]
    environment = {**os.environ, "PTO_CPU_SIM_UB_BYTES": str(size)}
    try:
        done = run([str(program), str(question), str(answer)], limits.seconds, environment)
    except subprocess.TimeoutExpired:
        message = f"{function.name} was not done after {limits.seconds:g} s and was ended"
        hint = "a loop that does not end, or a wait for another core; else raise Limits.seconds"
        raise LabError([Diagnostic(TOO_SLOW, message, function.span, hint=hint)]) from None
    if done.code != 0:
        raise LabError([Diagnostic(STOPPED, f"{function.name} {_reason(done, limits)}", function.span)])
    return answer.read_bytes(), done.output + done.errors


def _reason(done: Outcome, limits: Limits) -> str:
    said = done.errors.strip().splitlines()
    told = next((line for line in said if "ssert" in line or "what()" in line or "bad_alloc" in line), None)
    last = (told or (said[-1] if said else "")).strip()
    if "bad_alloc" in done.errors:
        return f"needs more memory than it may have ({limits.memory} bytes)"
    if done.code == _OUT_OF_BOUNDS:
        return f"writes outside a tensor: {last}"
    if done.code == _BAD_CALL:
        return "could not read its values or write its answer"
    if done.code < 0:
        name = signal.Signals(-done.code).name if -done.code in signal.Signals._value2member_map_ else str(-done.code)
        return f"was stopped by {name}" + (f": {last}" if last else "")
    return f"ended with code {done.code}" + (f": {last}" if last else "")

"""Runs a program as its torch script: binds values to parameters, runs lanes in a repeatable order, and turns errors
into diagnostics that name the kernel's source line."""

from __future__ import annotations

import hashlib
import linecache
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, TracebackType
from typing import Any

import torch

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import Direction
from pypto_lab.ir.types import ScalarType, ShapedType, constant_dims
from pypto_lab.torch_codegen.generate import generate
from pypto_lab.torch_codegen.lines import Script, ScriptLine
from pypto_lab.torch_codegen.scheduling import LaneScheduler, Policy, policy_of

TORCH: dict[DType, torch.dtype] = {
    dtypes.BOOL: torch.bool, dtypes.INT8: torch.int8, dtypes.INT16: torch.int16, dtypes.INT32: torch.int32,
    dtypes.INT64: torch.int64, dtypes.UINT8: torch.uint8, dtypes.UINT16: torch.uint16, dtypes.UINT32: torch.uint32,
    dtypes.UINT64: torch.uint64, dtypes.FP16: torch.float16, dtypes.BF16: torch.bfloat16, dtypes.FP32: torch.float32,
    dtypes.FP64: torch.float64, dtypes.FP8E4M3FN: torch.float8_e4m3fn, dtypes.FP8E5M2: torch.float8_e5m2,
}  # fmt: skip


class ScriptError(LabError):
    """A script stopped. The diagnostic names the source line and the statement; `line` is the script line (0: none)."""

    def __init__(self, diagnostic: Diagnostic, sources: Mapping[str, str], line: int) -> None:
        super().__init__([diagnostic], sources)
        self.line = line


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run gave: each Out and InOut parameter by name, the returned value, the script, and remarks such as
    tiles that were never freed."""

    outputs: Mapping[str, torch.Tensor]
    returned: Any
    script: Script
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A script and the arguments of its entry, ready to be called; `outputs` are those of its Out and InOut
    parameters."""

    script: Script
    arguments: tuple[Any, ...]
    outputs: Mapping[str, torch.Tensor]
    sources: Mapping[str, str]

    def call(self, namespace: Mapping[str, Any]) -> Any:
        """Calls the entry in a namespace of :func:`namespace`. Raises ScriptError."""
        try:
            return namespace[self.script.entry](*self.arguments)
        except LabError:
            raise
        except Exception as error:
            raise located(error, self.script, self.sources) from error


def run(
    program: n.Program | n.Function,
    values: Mapping[str, object],
    *,
    seed: int = 0,
    check_shapes: bool = False,
    poison: str | int | None = None,
    in_place: bool = False,
    policy: Policy | str = "lane-first",
    order_seed: int | None = None,
    memory: str = "names",
    arch: str = "a2a3",
    script: Script | None = None,
) -> RunResult:
    """Runs a program on values by parameter name (else the name before `__ssa_v`, else by position).

    Tensors are cloned unless `in_place`. `policy` is the order of lanes: `lane-first`, `round-robin`, `random` (by
    `order_seed`, else `seed`) or an object. `poison` ("nan" or a number) fills undefined cells with a marker. `memory`
    "addresses" puts tiles at the bytes of their MemRefs, in the memories of `arch` (see `generate`). A `script` that
    was made before is run as it is. Raises LabError for values that do not fit, ScriptError where the script stops,
    NoTorchForm for an op without one.
    """
    if script is None:
        script = generate(program, check_shapes=check_shapes, memory=memory, arch=arch)
    prepared = prepare(program, values, in_place=in_place, script=script)
    with warnings.catch_warnings(record=True) as caught, torch.random.fork_rng(devices=[]):
        warnings.simplefilter("always", RuntimeWarning)
        torch.manual_seed(seed)
        order = seed if order_seed is None else order_seed
        names = namespace(prepared.script, policy=policy, seed=order, poison=poison)
        returned = prepared.call(names)
    findings = tuple(str(w.message) for w in caught if issubclass(w.category, RuntimeWarning))
    return RunResult(prepared.outputs, returned, prepared.script, findings)


def prepare(
    program: n.Program | n.Function,
    values: Mapping[str, object],
    *,
    check_shapes: bool = False,
    in_place: bool = False,
    script: Script | None = None,
) -> Prepared:
    """Generates the script (unless given) and binds values to the entry's parameters. Raises LabError."""
    made = generate(program, check_shapes=check_shapes) if script is None else script
    entry = program if isinstance(program, n.Function) else _entry_of(program, made)
    sources = {} if isinstance(program, n.Function) else program.sources
    keys = _keys(entry, values)
    copies: dict[int, torch.Tensor] = {}
    arguments: list[Any] = []
    outputs: dict[str, torch.Tensor] = {}
    for param in entry.params:
        key = keys.get(param)
        if key is None:
            arguments.append(_missing(entry, param, values, keys))
            continue
        value = _argument(param, key, values[key], copies, in_place)
        arguments.append(value)
        if param.direction is not Direction.In and isinstance(value, torch.Tensor):
            outputs[key] = value
    return Prepared(made, tuple(arguments), outputs, sources)


def _entry_of(program: n.Program, script: Script) -> n.Function:
    name = next(name for name, written in script.functions.items() if written == script.entry)
    return program.functions[name]


def namespace(
    script: Script,
    *,
    policy: Policy | str = "lane-first",
    seed: int = 0,
    poison: str | int | None = None,
    code: CodeType | None = None,
    listener: Callable[[str, str, dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """The script's names after its text (or `code`, compiled from a variant of it) has run, with lanes as coroutines.

    `listener` is told about lanes and pipes (see `runtime/lanes.py`).
    """
    names: dict[str, Any] = {}
    exec(compiled(script.text) if code is None else code, names)
    if "_UNDEFINED" in names:
        names["_UNDEFINED"] = poison
    if "_scheduler" in names:
        names["_scheduler"] = LaneScheduler(names, policy_of(policy, seed))
        names["_source_of_line"] = script.source
        names["_LISTENER"] = listener
    return names


def file_name(text: str) -> str:
    """The file name a script's code carries; its lines are known to `linecache`, so that tracebacks show them."""
    name = f"<pypto script {hashlib.sha1(text.encode()).hexdigest()[:12]}>"
    if name not in linecache.cache:
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    return name


@lru_cache(maxsize=64)
def compiled(text: str) -> CodeType:
    """The script's code."""
    return compile(text, file_name(text), "exec")


# --- values ----------------------------------------------------------------------------------------------------------


def _keys(entry: n.Function, values: Mapping[str, object]) -> dict[n.Param, str]:
    """Which value each parameter takes: by name, by the name before `__ssa_v`, else by position."""
    found: dict[n.Param, str] = {}
    for param in entry.params:
        plain = param.name.partition("__ssa_v")[0]
        key = next((k for k in (param.name, plain) if k in values), None)
        if key is not None:
            found[param] = key
    if not found and len(values) == len(entry.params):
        return dict(zip(entry.params, values, strict=True))
    return found


def _missing(entry: n.Function, param: n.Param, values: Mapping[str, object], keys: Mapping[n.Param, str]) -> int:
    """The value of a scalar parameter that is a dimension of a given tensor. Raises LabError for any other."""
    for other, key in keys.items():
        value = values[key]
        if not isinstance(other.type, ShapedType) or not hasattr(value, "shape"):
            continue
        for axis, dim in enumerate(other.type.shape):
            form = arith.linear_form(dim)
            factor = next((c for c, atom in form.terms.values() if atom is param.var), 0)
            if factor and len(form.terms) == 1:
                return int((value.shape[axis] - form.offset) // factor)
    raise LabError(
        [
            Diagnostic(
                "E404",
                f"{entry.name} needs a value for `{param.name}`",
                param.span,
                hint=f"the values given are {', '.join(values) or 'none'}",
            )
        ]
    )


def _argument(param: n.Param, key: str, value: Any, copies: dict[int, torch.Tensor], in_place: bool) -> Any:
    """A value as the script takes it. Raises LabError when its kind, dtype or shape does not fit."""
    if isinstance(param.type, ScalarType):
        return value.item() if hasattr(value, "item") else value
    if not isinstance(value, torch.Tensor):
        value = _as_tensor(param, key, value)
    _check_fit(param, key, value)
    if in_place:
        return value
    if id(value) not in copies:
        copies[id(value)] = value.detach().clone()
    return copies[id(value)]


def _as_tensor(param: n.Param, key: str, value: Any) -> torch.Tensor:
    if hasattr(value, "__array__") or isinstance(value, (list, tuple)):
        return torch.as_tensor(value)
    raise LabError([Diagnostic("E401", f"`{key}` should be a tensor, got {type(value).__name__}", param.span)])


def _check_fit(param: n.Param, key: str, value: torch.Tensor) -> None:
    type_ = param.type
    if not isinstance(type_, ShapedType):
        return
    wanted = TORCH.get(type_.dtype)
    if wanted is not None and value.dtype != wanted:
        hint = f"convert it: `{key}.to({wanted})`"
        message = f"`{key}` should be {type_.dtype.name} ({wanted}), got {value.dtype}"
        raise LabError([Diagnostic("E402", message, param.span, hint=hint)])
    fixed = [constant_dims((dim,)) for dim in type_.shape]
    known = [None if dim is None else dim[0] for dim in fixed]
    if len(known) != value.dim() or any(k is not None and k != s for k, s in zip(known, value.shape, strict=True)):
        shown = ", ".join("?" if k is None else str(k) for k in known)
        message = f"`{key}` should have shape [{shown}], got {list(value.shape)}"
        raise LabError([Diagnostic("E403", message, param.span)])


# --- errors ----------------------------------------------------------------------------------------------------------


def located(error: BaseException, script: Script, sources: Mapping[str, str]) -> ScriptError:
    """The error as a diagnostic at the innermost kernel statement its traceback passes."""
    line = kernel_line(error, script)
    if line is None:
        return ScriptError(Diagnostic("E400", f"{type(error).__name__}: {error}"), sources, 0)
    note = f"script line {line.number}: {script.row(line.number)}"
    if line.stmt is not None:
        note = f"statement {_shown(line.stmt)}\n        {note}"
    note = "\n        ".join([note, *getattr(error, "__notes__", ())])
    where = f"{line.span.file}:{line.span.line}: " if line.span is not None else ""
    message = f"{where}{type(error).__name__}: {str(error).removeprefix(where)}"
    return ScriptError(Diagnostic("E400", message, line.span, note=note), sources, line.number)


def kernel_line(error: BaseException, script: Script) -> ScriptLine | None:
    """The innermost line of kernel code in an error's traceback, its causes included."""
    found: ScriptLine | None = None
    name = file_name(script.text)
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == name:
            found = script.lines.get(trace.tb_lineno, found)
        trace = trace.tb_next
    return found


def _shown(stmt: n.Stmt) -> str:
    """A statement's first line as DSL text."""
    from pypto_lab.ir.printer import print_stmt  # the printer is large and needed here only

    text = print_stmt(stmt).strip().splitlines()
    return text[0] if text else type(stmt).__name__

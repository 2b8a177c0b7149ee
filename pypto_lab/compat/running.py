"""Running programs for the stand-ins: binding arguments to parameters, allocating outputs, the lab's engine."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pypto_lab.compat.notices import say_once
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError, Severity
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import Direction
from pypto_lab.ir.types import ShapedType
from pypto_lab.ir.visitor import walk
from pypto_lab.ops import OPS

if TYPE_CHECKING:
    import torch

TORCH_DTYPES: dict[str, str] = {
    "BOOL": "bool", "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64", "INDEX": "int64",
    "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64",
    "FP16": "float16", "BF16": "bfloat16", "FP32": "float32", "FP64": "float64",
    "FP8E4M3FN": "float8_e4m3fn", "FP8E5M2": "float8_e5m2", "FP8E8M0": "float8_e8m0fnu",
    "INT4": "int8", "UINT4": "uint8", "FP4": "float32", "HF4": "float32", "HF8": "float32", "TASK_ID": "int64",
}  # fmt: skip
"""The torch dtype that holds values of each PyPTO dtype; sub-byte and HiFloat types are held in a wider one."""


class Runtime:
    """The value `pl.RUNTIME`: a scalar parameter that stays a parameter of the compiled program."""

    def __repr__(self) -> str:
        return "pl.RUNTIME"


RUNTIME = Runtime()


def torch_dtype(dtype: DType) -> torch.dtype:
    """The torch dtype that holds values of a PyPTO dtype."""
    import torch

    found: torch.dtype = getattr(torch, TORCH_DTYPES[dtype.name])
    return found


def plain(value: Any) -> Any:
    """A scalar argument as a Python number: numpy scalars and 0-dim tensors are unwrapped, anything else is kept."""
    item = getattr(value, "item", None)
    return item() if callable(item) and getattr(value, "shape", None) == () else value


def bind_call(function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a jit call by parameter name, defaults filled in. Raises LabError E502 when they do not fit."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*arguments, **keywords)
    except TypeError as error:
        parameters = ", ".join(signature.parameters)
        raise does_not_fit(function.__name__, f"{error}", parameters) from None
    bound.apply_defaults()
    return dict(bound.arguments)


def bind_program(program: n.Program, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> BoundCall:
    """Arguments of a program's entry by parameter name.

    All parameters may be given, or all but the outputs: then the outputs are allocated and count as the result.
    Raises LabError E502 when the number of arguments is neither.
    """
    entry = program.entry
    names = [p.name for p in entry.params]
    inputs = [p.name for p in entry.params if p.direction is not Direction.Out]
    unknown = [k for k in keywords if k not in names]
    if unknown:
        raise does_not_fit(entry.name, f"no parameter {', '.join(unknown)}", ", ".join(names))
    open_names = [name for name in names if name not in keywords]
    if len(arguments) > len(open_names):
        raise does_not_fit(entry.name, f"{len(arguments)} arguments given", ", ".join(names))
    if len(arguments) < len(open_names):
        open_names = [name for name in inputs if name not in keywords]
    if len(arguments) != len(open_names):
        raise does_not_fit(entry.name, f"{len(arguments)} arguments given", ", ".join(names))
    values = {**dict(zip(open_names, arguments, strict=True)), **keywords}
    allocated = [name for name in names if name not in values]
    values.update(allocate(entry, values))
    return BoundCall({name: values[name] for name in names}, tuple(allocated))


class BoundCall:
    """Values by parameter name, and the names of the outputs nobody passed."""

    def __init__(self, values: dict[str, Any], allocated: tuple[str, ...]) -> None:
        self.values, self.allocated = values, allocated


def allocate(entry: n.Function, values: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Zero tensors for the entry's outputs that `values` lacks; dynamic dims are read off the other arguments."""
    import torch

    sizes = symbol_sizes(entry, values)
    made = {}
    for parameter in entry.params:
        if parameter.name in values:
            continue
        if not isinstance(parameter.type, ShapedType):
            raise does_not_fit(entry.name, f"no value for the scalar {parameter.name}", parameter.name)
        shape = [dim_value(d, sizes) for d in parameter.type.shape]
        made[parameter.name] = torch.zeros(shape, dtype=torch_dtype(parameter.type.dtype))
    return made


def symbol_sizes(entry: n.Function, values: Mapping[str, Any]) -> dict[str, int]:
    """Sizes of dynamic dims and integer scalars, from the arguments that are there."""
    sizes: dict[str, int] = {}
    for parameter in entry.params:
        value = values.get(parameter.name)
        if isinstance(value, int):
            sizes[parameter.name] = value
        shape = getattr(value, "shape", None)
        if isinstance(parameter.type, ShapedType) and shape is not None:
            for dim, size in zip(parameter.type.shape, shape, strict=False):
                if isinstance(dim, n.Var):
                    sizes.setdefault(dim.name, int(size))
    return sizes


_FOLD: dict[str, Callable[[int, int], int]] = {
    "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b,
    "FloorDiv": lambda a, b: a // b, "FloorMod": lambda a, b: a % b, "Min": min, "Max": max,
}  # fmt: skip


def dim_value(dim: n.Expr, sizes: Mapping[str, int]) -> int:
    """A dimension as a number. Raises LabError E502 for a symbol nothing binds."""
    if isinstance(dim, n.ConstInt):
        return dim.value
    if isinstance(dim, n.Var) and dim.name in sizes:
        return sizes[dim.name]
    if isinstance(dim, n.Binary) and dim.op in _FOLD:
        return _FOLD[dim.op](dim_value(dim.left, sizes), dim_value(dim.right, sizes))
    if isinstance(dim, n.Unary) and dim.op == "Cast":
        return dim_value(dim.operand, sizes)
    name = dim.name if isinstance(dim, n.Var) else type(dim).__name__
    raise LabError([Diagnostic("E502", f"the size `{name}` of an output is not known from the arguments")])


def does_not_fit(name: str, what: str, parameters: str) -> LabError:
    return LabError(
        [Diagnostic("E502", f"{name}: {what}", hint=f"pass the parameters in this order: {parameters}")],
    )


def execute(
    program: n.Program,
    values: Mapping[str, Any],
    config: Any = None,
    callbacks: Mapping[str, Callable[..., Any]] | None = None,
) -> Any:
    """Runs a program on the lab, outputs written in place; returns what its entry returns.

    `callbacks` are the bodies of its runtime-bound workers by name; each is called with the list of its arguments.
    """
    from pypto_lab.torch_codegen.execute import namespace, prepare, run

    refuse_ranks(getattr(config, "distributed_config", None))
    note_where_it_ran(config)
    given = {name: plain(v) for name, v in values.items()}
    if not callbacks:
        result = run(program, given, in_place=True)
        for finding in result.findings:
            say_once(f"{program.name}: {finding}")
        return result.returned
    prepared = prepare(program, given, in_place=True)
    names = namespace(prepared.script)
    for name, function in callbacks.items():
        names[prepared.script.functions[name]] = lambda *arguments, call=function: call(list(arguments))
    return prepared.call(names)


def refuse_ranks(distributed: Any) -> None:
    """Raises LabError E505 for a `DistributedConfig` of several devices: the lab runs one rank."""
    devices = getattr(distributed, "device_ids", None) or ()
    if len(devices) > 1:
        raise LabError(
            [
                Diagnostic(
                    "E505",
                    f"running {len(devices)} ranks is not built yet",
                    hint="programs for one device run today; `pypto-lab script` and `graph` show distributed ones",
                )
            ]
        )


def note_where_it_ran(config: Any) -> None:
    """Says once that a platform or device the user named was not used."""
    platform = getattr(config, "platform", None)
    if platform:
        say_once(f"kernels run here with PyTorch; platform {platform} and its devices are not used")


def refuse_unwritten(program: n.Program) -> None:
    """Raises LabError E511 when an output is only re-bound: on the device its cells would stay undefined."""
    rebound = [note for note in program.notes if isinstance(note, Diagnostic) and note.code == "W001"]
    if not rebound:
        return
    entry = program.entry
    written = set(_written_names(program, entry))
    lost = [p.name for p in entry.params if p.direction is Direction.Out and p.name not in written]
    about = [note for note in rebound if any(f"`{name}`" in note.message for name in lost)]
    if about:
        raise LabError([replace(note, code="E511", severity=Severity.ERROR) for note in about], program.sources)


def _written_names(program: n.Program, function: n.Function) -> Iterator[str]:
    """Names of variables that an op or a called function of the program writes."""
    for node in walk(function):
        if isinstance(node, n.OpCall):
            op = OPS.get(node.op)
            index = None if op is None else op.torch.writes
            target = node.args[index] if index is not None and index < len(node.args) else None
            if isinstance(target, n.Var):
                yield target.name
        elif isinstance(node, (n.FunctionCall, n.Submit)):
            callee = program.functions.get(node.callee)
            for parameter, argument in zip(callee.params if callee else (), node.args, strict=False):
                if isinstance(argument, n.Var) and parameter.direction is not Direction.In:
                    yield argument.name


def show_notes(program: n.Program) -> None:
    """Prints the front end's warnings on a program, each once a process."""
    for note in program.notes:
        if isinstance(note, Diagnostic) and note.severity.value == "warning":
            say_once(note.render(program.sources))

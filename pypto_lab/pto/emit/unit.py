"""Functions and modules: signatures, views of the tensors a body uses, and which functions share a module."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import FunctionType as PtoFunctionType
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.enums import FunctionType
from pypto_lab.ir.types import ScalarType, TensorType
from pypto_lab.ir.visitor import walk, walk_with_types
from pypto_lab.pto.dialect.attributes import keyword, type_attribute
from pypto_lab.pto.dialect.types import CAPACITY, PointerType
from pypto_lab.pto.emit.builder import Builder, Tensor
from pypto_lab.pto.emit.flow import emit_body
from pypto_lab.pto.emit.pipes import GM_PIPE_BUFFER
from pypto_lab.pto.emit.scalars import SPMD_PARAMETERS
from pypto_lab.pto.emit.tensors import viewed
from pypto_lab.pto.emit.types import element, scalar_type
from pypto_lab.pto.printing import print_module

LOWERED = frozenset({FunctionType.InCore, FunctionType.AIC, FunctionType.AIV})
KINDS = {FunctionType.AIC: "cube", FunctionType.AIV: "vector"}


def emit(program: n.Program, arch: str = "a2a3") -> dict[str, str]:
    """The `.pto` text of every kernel of a lowered program, by unit name.

    A unit is a function that runs on a core, or a group: its cube and vector functions in one module. The program is
    one that all passes have been over: tiles have addresses, functions a core. Ops, operand orders and the order of
    parameters follow the PTO reference. Raises LabError: E610 for what has no form in `.pto` text (the op, the
    function and the line are named), E611 for an op fed tiles of an order it cannot work in, E612 for an unknown
    architecture or a program without kernels.
    """
    if arch not in CAPACITY:
        raise LabError([Diagnostic("E612", f"there is no architecture `{arch}`", hint=f"one of {', '.join(CAPACITY)}")])
    made = {name: _module(program, functions, arch) for name, functions in units(program)}
    if not made:
        hint = "emit what all passes made: functions of type AIC, AIV or InCore"
        raise LabError([Diagnostic("E612", f"{program.name} has no function that runs on a core", hint=hint)])
    return made


def emit_to(program: n.Program, directory: Path | str, arch: str = "a2a3") -> list[Path]:
    """Writes the units below `directory` as the compiler does: `kernels/aic`, `kernels/aiv`, groups in `kernels`.

    Nothing is written when one of them is refused. Raises LabError as `emit`, OSError when a file cannot be written.
    """
    texts = emit(program, arch)
    written = []
    for name, functions in units(program):
        folder = Path(directory) / "kernels"
        if len(functions) == 1 and functions[0].func_type in KINDS and functions[0].name == name:
            folder /= functions[0].func_type.name.lower()
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.pto"
        path.write_text(texts[name], encoding="utf-8")
        written.append(path)
    return written


def units(program: n.Program) -> Iterator[tuple[str, list[n.Function]]]:
    """(name, functions) of every module: groups with their members, then functions of no group."""
    grouped: set[str] = set()
    for function in program.functions.values():
        if function.func_type is not FunctionType.Group:
            continue
        members = [node.callee for node in walk(function) if isinstance(node, (n.FunctionCall, n.Submit))]
        lowered = [program.functions[m] for m in dict.fromkeys(members) if m in program.functions]
        lowered = [f for f in lowered if f.func_type in LOWERED]
        grouped |= {f.name for f in lowered}
        yield function.name, lowered
    for function in program.functions.values():
        if function.func_type in LOWERED and function.name not in grouped and function.body is not None:
            yield function.name, [function]


def _module(program: n.Program, functions: list[n.Function], arch: str) -> str:
    names: dict[SSAValue, str] = {}
    made = [_function(program, function, names) for function in functions]
    module = ModuleOp(made, {"pto.target_arch": StringAttr(arch)})
    return print_module(module, names=names)


# --- functions --------------------------------------------------------------------------------------------------------


def _function(program: n.Program, function: n.Function, names: dict[SSAValue, str]) -> FuncOp:
    block = Block()
    b = Builder(program, function, block, names, kept=_kept(function))
    with b.at(function.span):
        if function.body is None:
            b.refuse("a function without a body")
        _parameters(b)
        _views(b)
    emit_body(b, function.body, tail=True)
    block.add_op(ReturnOp())
    b.finish(block)
    type_ = PtoFunctionType.from_lists([a.type for a in block.args], [])
    made = FuncOp(function.name, type_, Region(block))
    if function.func_type in KINDS:
        made.attributes["pto.kernel_kind"] = keyword("kernel_kind", KINDS[function.func_type])
    return made


def _parameters(b: Builder) -> None:
    """Parameters in the fixed order: tensors, scalars, dynamic dimensions, then what SPMD ops read."""
    tensors = [p for p in b.function.params if isinstance(p.type, TensorType)]
    scalars = [p for p in b.function.params if isinstance(p.type, ScalarType)]
    if len(tensors) + len(scalars) != len(b.function.params):
        b.refuse("a parameter that is neither a tensor nor a scalar")
    for param in tensors:
        assert isinstance(param.type, TensorType)
        if param.type.distributed:
            b.refuse(f"`{param.name}` is a tensor of several devices")
        pointer = _parameter(b, type_attribute(PointerType(element(param.type.dtype))))
        b.tensors[id(param.var)] = Tensor(pointer, param.type, (), ())
    for param in scalars:
        assert isinstance(param.type, ScalarType)
        b.scalars[id(param.var)] = _parameter(b, scalar_type(param.type.dtype))
    for dim in _dimensions(b):
        b.scalars[id(dim)] = _parameter(b, type_attribute("index"))
    used = {node.op for node in walk_with_types(b.function) if isinstance(node, n.OpCall)}
    blocks = used & {"tile.get_block_idx", "tile.get_block_num"}
    for op, name in SPMD_PARAMETERS.items():
        if op in used or (blocks and op in ("tile.get_block_idx", "tile.get_block_num")):
            b.parameters[name] = _parameter(b, type_attribute("i32"), name)


def _parameter(b: Builder, type_: Attribute, name: str | None = None) -> SSAValue:
    value = b.block.insert_arg(type_, len(b.block.args))
    b.name(value, name or f"arg{len(b.block.args) - 1}")
    return value


def _dimensions(b: Builder) -> Iterator[n.Var]:
    """Dynamic dimensions in the order tensors state them, each once. A sum or product of one counts as it."""
    own = {id(p.var) for p in b.function.params}
    seen: set[int] = set()
    for param in b.function.params:
        for dim in param.type.shape if isinstance(param.type, TensorType) else ():
            for factor, atom in arith.linear_form(dim).terms.values():
                if isinstance(atom, n.Var) and factor and id(atom) not in own | seen:
                    seen.add(id(atom))
                    yield atom


def _views(b: Builder) -> None:
    """A view of every tensor the body uses or returns."""
    used: set[int] = set()
    for node in walk(b.function):
        used |= _named(node)
    for param in b.function.params:
        hidden = param.name.partition("__ssa")[0] == GM_PIPE_BUFFER
        if isinstance(param.type, TensorType) and id(param.var) in used and not hidden:
            with b.at(param.span):
                pointer = b.tensors[id(param.var)].pointer
                b.tensors[id(param.var)] = viewed(b, param.name, pointer, param.type)


def _named(node: Any) -> set[int]:
    """Variables a node's own operands name."""
    match node:
        case n.OpCall(op="system.set_ffts"):
            return set()  # reached by its address
        case n.OpCall():
            return {id(a) for a in node.args if isinstance(a, n.Var)}
        case n.Assign(value=n.Var() as value):
            return {id(value)}
        case n.For() | n.While():
            return {id(a.init_value) for a in node.iter_args}
        case n.Yield() | n.Return():
            return {id(v) for v in node.values}
    return set()


def _kept(function: n.Function) -> frozenset[int]:
    """Calls of `set_validshape` on a tile that something later, or the next round of a loop, uses as it was."""
    order = list(walk(function))
    last: dict[int, int] = {}
    for place, node in enumerate(order):
        for argument in getattr(node, "args", ()) if isinstance(node, n.OpCall) else ():
            last[id(argument)] = place
        if isinstance(node, n.Yield):
            last |= {id(v): place for v in node.values}
        if isinstance(node, n.Assign) and isinstance(node.value, n.Var):
            last[id(node.value)] = place
    inside = _defined_inside(function)
    found = set()
    for place, node in enumerate(order):
        if isinstance(node, n.OpCall) and node.op == "tile.set_validshape":
            tile = node.args[0]
            if last[id(tile)] > place or isinstance(tile, n.IterArg) or id(node) in inside[id(tile)]:
                found.add(id(node))
    return frozenset(found)


def _defined_inside(function: n.Function) -> Mapping[int, set[int]]:
    """Per variable, the calls in loops that do not define it: they run again on the same variable."""
    found: dict[int, set[int]] = defaultdict(set)
    for loop in (node for node in walk(function) if isinstance(node, (n.For, n.While))):
        own = {id(node.var) for node in walk(loop) if isinstance(node, n.Assign)}
        for node in walk(loop):
            if isinstance(node, n.OpCall) and node.args and id(node.args[0]) not in own:
                found[id(node.args[0])].add(id(node))
    return found

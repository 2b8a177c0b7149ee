"""Getting something ready to be recorded: instruments it, binds its arguments, and knows which calls are pure."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import torch

from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.types import TileType
from pypto_lab.record.droppable import Knowledge, parameter_names
from pypto_lab.record.events import FunctionInfo, Place, SourceSpot, Statement
from pypto_lab.record.instrument import PROBES, Instrumenter
from pypto_lab.record.probes import Probes
from pypto_lab.torch_codegen import execute
from pypto_lab.torch_codegen.lines import Script
from pypto_lab.torch_codegen.memories import memref_of

MAY_ALIAS = frozenset(
    {
        "tensor.slice", "tensor.reshape", "tile.reshape", "tensor.transpose", "tile.transpose", "tensor.view",
        "tensor.reinterpret_view", "tile.reinterpret_view", "tensor.set_validshape", "tile.set_validshape",
        "tensor.cast", "tile.cast", "tensor.as_layout", "tile.fillpad", "tensor.fillpad", "tile.tget_scale_addr",
        "tile.aic_gather", "tile.aiv_shard", "tensor.expand_clone", "tile.move", "tensor.squeeze", "tensor.unsqueeze",
    }
)  # fmt: skip
"""Pure ops whose result may be a view of an operand."""

NOT_PURE = re.compile(r"random|get_block|get_subblock|alloc|push|pop|free|atomic|read$|create_local")
"""Ops whose value does not follow from the operands alone (or is not a tensor)."""


@dataclass(frozen=True, slots=True)
class ScriptText:
    """A script without its IR, as an archive holds it."""

    text: str
    entry: str
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is run: instrumented code, bound arguments, and what is known about the code.

    `outputs` are the parameters that are outputs, by the name they are shown under. `scopes` are the names a function's
    expressions see, by function id. `start` installs probes, lane order and seed, and gives the call that runs.
    `explain` turns an exception into a text that names the kernel's line ("" when it cannot).
    """

    entry: str
    script: str
    arguments: dict[str, Any]
    outputs: dict[str, str]
    functions: Sequence[FunctionInfo]
    statements: Sequence[Statement]
    expressions: Mapping[int, ast.expr]
    scopes: Mapping[int, Mapping[str, Any]]
    start: Callable[[Probes, Any, int], Callable[[], Any]]
    sources: Mapping[str, str] = field(default_factory=dict)
    functions_of_script: Mapping[str, str] = field(default_factory=dict)
    """By function of the program: its name in the script."""
    explain: Callable[[Exception], str] = lambda problem: ""


Adapt = Callable[[dict[str, Any], Script], None]
"""Changes a script's namespace before it runs."""


def prepare(
    program: Any,
    values: Mapping[str, Any],
    *,
    keep_all: bool = False,
    check_shapes: bool = False,
    adapt: Adapt | None = None,
) -> Prepared:
    """Instruments a program and binds values to its parameters. `adapt` may put other functions into the place of those
    of a Program's script.

    Raises LabError for values that do not fit, TypeError for something that cannot be recorded.
    """
    if isinstance(program, (n.Program, n.Function)):
        return _program(program, values, keep_all, check_shapes, adapt)
    if isinstance(program, Script):
        return _script(program, bind(_signature(program.text, program.entry), values, program.entry), None, keep_all)
    if isinstance(program, ScriptText):
        script = Script(program.text, program.entry, {})
        arguments = bind(_signature(program.text, program.entry), values, program.entry)
        outputs = {name: name for name in program.outputs if name in arguments}
        return _script(script, arguments, outputs, keep_all)
    if isinstance(program, types.FunctionType):
        return _plain_function(program, values, keep_all)
    raise TypeError(f"cannot record a {type(program).__name__}: give a Program, a Script or a plain function")


def bind(parameters: Mapping[str, Any], values: Mapping[str, Any], entry: str) -> dict[str, Any]:
    """Values by parameter (by name, the name before `__ssa_v`, else by position), tensors cloned. `parameters` maps
    names to defaults (`inspect.Parameter.empty` for none). Raises LabError for one without a value."""
    known = {p: next((k for k in (p, p.partition("__ssa_v")[0]) if k in values), None) for p in parameters}
    if not any(known.values()) and len(values) == len(parameters):
        known = dict(zip(parameters, values, strict=True))
    copies: dict[int, torch.Tensor] = {}
    out: dict[str, Any] = {}
    for name, key in known.items():
        if key is not None:
            out[name] = cloned(values[key], copies)
        elif parameters[name] is not inspect.Parameter.empty:
            out[name] = parameters[name]
        else:
            given = ", ".join(values) or "none"
            raise LabError([Diagnostic("E404", f"{entry} needs a value for `{name}`", hint=f"values given: {given}")])
    return out


def cloned(value: Any, copies: dict[int, torch.Tensor]) -> Any:
    """A copy of every tensor in a value; the same tensor gives the same copy."""
    if isinstance(value, torch.Tensor):
        if id(value) not in copies:
            copies[id(value)] = value.detach().clone()
            copies[id(value)].__dict__.update(value.__dict__)
        return copies[id(value)]
    if isinstance(value, dict):
        return {k: cloned(v, copies) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(cloned(v, copies) for v in value)
    return value


# --- scripts ---------------------------------------------------------------------------------------------------------


def _program(
    program: n.Program | n.Function,
    values: Mapping[str, Any],
    keep_all: bool,
    check_shapes: bool,
    adapt: Adapt | None,
) -> Prepared:
    bound = execute.prepare(program, values, check_shapes=check_shapes)
    names = list(_signature(bound.script.text, bound.script.entry))
    arguments = dict(zip(names, bound.arguments, strict=True))
    by_object = {id(x): name for name, x in arguments.items()}
    outputs = {shown: by_object[id(x)] for shown, x in bound.outputs.items()}
    prepared = _script(bound.script, arguments, outputs, keep_all, adapt)

    def explain(problem: Exception) -> str:
        return str(execute.located(problem, bound.script, bound.sources))

    functions = dict(bound.script.functions)
    return replace(prepared, sources=dict(bound.sources), explain=explain, functions_of_script=functions)


def _script(
    script: Script,
    arguments: dict[str, Any],
    outputs: dict[str, str] | None,
    keep_all: bool,
    adapt: Adapt | None = None,
) -> Prepared:
    code, instrumenter = _instrumented_script(script.text, keep_all)
    statements = [_located(s, script) for s in instrumenter.statements]
    scope: dict[str, Any] = {}
    if outputs is None:
        outputs = {name: name for name, x in arguments.items() if isinstance(x, torch.Tensor)}

    def start(probes: Probes, policy: Any, seed: int) -> Callable[[], Any]:
        names = execute.namespace(script, policy=policy, seed=seed, code=code, listener=probes.listen)
        if adapt is not None:
            adapt(names, script)
        names.update(probes.names())
        if "_LISTENER" in names:
            names["_LISTENER"] = probes.listen
        probes.script_file = execute.file_name(script.text)
        probes.begin(statements)
        scope.update(names)
        scope.update(dict.fromkeys(PROBES, _through))
        return lambda: names[script.entry](*arguments.values())

    scopes = {f.id: scope for f in instrumenter.functions}
    expressions = instrumenter.expressions
    return Prepared(
        script.entry, script.text, arguments, outputs, instrumenter.functions, statements, expressions, scopes, start
    )


@lru_cache(maxsize=32)
def _instrumented_script(text: str, keep_all: bool) -> tuple[types.CodeType, Instrumenter]:
    """A script's code with probes, and the tables they refer to."""
    instrumenter = Instrumenter(script_knowledge(), keep_all=keep_all)
    tree = instrumenter.module(ast.parse(text), lambda name: not name.startswith("_"), text)
    return compile(tree, execute.file_name(text), "exec"), instrumenter


def _through(value: Any = None, *_: Any) -> Any:
    return value


def _signature(text: str, entry: str) -> dict[str, Any]:
    """Parameter names of a script's entry. Raises LabError when the script has no such function."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == entry:
            return dict.fromkeys(parameter_names(node.args), inspect.Parameter.empty)
    raise LabError([Diagnostic("E412", f"the script has no function `{entry}`")])


def _located(statement: Statement, script: Script) -> Statement:
    """A statement with its place in the kernel's text, its op and its DSL line."""
    line = script.lines.get(statement.line)
    if line is None:
        return statement
    span = line.span
    spot = SourceSpot(span.file, span.line, span.column) if span is not None else None
    names = script.names.get(line.function, {})
    places = tuple(_place(names.get(target)) for target in statement.targets)
    if any(places):
        statement = replace(statement, places=places)
    if line.stmt is None:
        return replace(statement, spot=spot)
    value = line.stmt.value if isinstance(line.stmt, n.Assign) else getattr(line.stmt, "expr", None)
    op = value.op if isinstance(value, n.OpCall) else None
    return replace(statement, spot=spot, op=op, dsl=_dsl(line.stmt))


def _place(variable: n.Var | None) -> Place | None:
    """Where a tile lies on chip, when its type says so in numbers."""
    memref = memref_of(variable.type) if variable is not None else None
    if memref is None or memref.size is None or not isinstance(memref.offset, n.ConstInt):
        return None
    assert variable is not None and isinstance(variable.type, TileType)
    slot = 0 if memref.slot is None else getattr(memref.slot, "value", None)
    if slot is None:
        return None
    space = variable.type.memory_space
    low = memref.offset.value + slot * memref.size
    return Place("?" if space is None else space.name, low, low + memref.size)


def _dsl(stmt: n.Stmt) -> str | None:
    """A statement's first line as DSL text."""
    from pypto_lab.ir.printer import print_stmt  # the printer is large and needed here only

    rows = print_stmt(stmt).strip().splitlines()
    return rows[0] if rows else None


@lru_cache(maxsize=1)
def script_knowledge() -> Knowledge:
    """Which runtime functions are pure, by the op records."""
    from pypto_lab.ops import OPS

    fresh: set[str] = set()
    pure: set[str] = set()
    writers: set[str] = set()
    writes: dict[str, int] = {}
    reads: dict[str, frozenset[int]] = {}
    for op in OPS:
        name = f"_{op.torch.call}"
        if op.torch.writes is not None:
            writers.add(name)
            count = sum(a.effect.value != "none" for a in op.args)
            writes[name] = op.torch.writes
            reads[name] = frozenset(range(count)) - {op.torch.writes}
        elif op.namespace not in ("tile", "tensor") or NOT_PURE.search(op.name):
            writers.add(name)
        elif op.name in MAY_ALIAS:
            pure.add(name)
        else:
            fresh.add(name)
    return Knowledge(
        fresh=frozenset(fresh - pure - writers), pure=frozenset(pure - writers), writes=writes, reads_only=reads
    )


# --- plain functions -------------------------------------------------------------------------------------------------


def _plain_function(function: types.FunctionType, values: Mapping[str, Any], keep_all: bool) -> Prepared:
    helpers = _helpers(function)
    together = [*helpers.values(), function]
    instrumenter = Instrumenter(keep_all=keep_all, containers=True)
    scopes: dict[int, Mapping[str, Any]] = {}
    nodes: list[ast.stmt] = []
    texts: list[str] = []
    for f in together:
        scope = _scope(f)
        instrumenter.knowledge = _function_knowledge(scope, helpers)
        scopes[len(instrumenter.functions)] = scope
        text = textwrap.dedent(inspect.getsource(f))
        nodes.append(_instrumented(f, text, instrumenter))
        texts.append(text)
    code = _factory(nodes, _closure(together), inspect.getsourcefile(function) or "<function>")
    parameters = {p.name: p.default for p in inspect.signature(function).parameters.values()}
    arguments = bind(parameters, values, function.__name__)

    def start(probes: Probes, policy: Any, seed: int) -> Callable[[], Any]:
        made: dict[str, Any] = {}
        exec(code, function.__globals__, made)
        recorded = made[FACTORY](**probes.names(), **_closure(together))
        probes.begin(instrumenter.statements)
        return lambda: recorded(**arguments)

    outputs = {name: name for name, x in arguments.items() if isinstance(x, torch.Tensor)}
    statements, expressions = instrumenter.statements, instrumenter.expressions
    script = "\n\n".join(texts)
    return Prepared(
        function.__name__, script, arguments, outputs, instrumenter.functions, statements, expressions, scopes, start
    )


FACTORY = "_pl_factory"


def _factory(nodes: list[ast.stmt], closure: Mapping[str, Any], file: str) -> types.CodeType:
    """One function that defines all instrumented ones, so that they see the probes, each other and their closure."""
    names = [ast.arg(name) for name in (*PROBES, *closure)]
    parameters = ast.arguments([], [], None, names, [None] * len(names), None, [])
    last = nodes[-1]
    assert isinstance(last, ast.FunctionDef)
    give = ast.Return(ast.Name(last.name, ast.Load()))
    factory = ast.FunctionDef(FACTORY, parameters, [*nodes, give], [])
    return compile(ast.fix_missing_locations(ast.Module([factory], [])), file, "exec")


def _instrumented(function: types.FunctionType, text: str, instrumenter: Instrumenter) -> ast.FunctionDef:
    """A function's definition with probes, at its lines of the file. Raises TypeError when it is not a plain `def`."""
    node = ast.parse(text).body[0]
    if not isinstance(node, ast.FunctionDef):
        raise TypeError(f"cannot record {function.__name__}: its source is not a plain `def`")
    node.decorator_list = []
    shift = function.__code__.co_firstlineno - 1
    instrumenter.function(node, text.splitlines(), inspect.getsourcefile(function), shift)
    return ast.increment_lineno(node, shift)


def _closure(functions: Sequence[types.FunctionType]) -> dict[str, Any]:
    """The free variables of functions, other functions of the list left out."""
    names = {f.__name__ for f in functions}
    return {
        name: value
        for f in functions
        for name, value in _scope(f).items()
        if name in f.__code__.co_freevars and name not in names
    }


def _helpers(function: types.FunctionType) -> dict[str, types.FunctionType]:
    """Plain functions of the same module that a function calls, directly or not."""
    found: dict[str, types.FunctionType] = {}
    queue = [function]
    while queue:
        current = queue.pop()
        used = {*current.__code__.co_names, *current.__code__.co_freevars}
        for name, value in _scope(current).items():
            if name in used and name not in found and value is not function and _is_helper(name, value, function):
                found[name] = value
                queue.append(value)
    return found


def _is_helper(name: str, value: Any, function: types.FunctionType) -> bool:
    if not isinstance(value, types.FunctionType) or value.__name__ != name:
        return False
    if value.__code__.co_filename != function.__code__.co_filename:
        return False
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(value)))
    except (OSError, TypeError, SyntaxError):
        return False
    node = tree.body[0] if tree.body else None
    plain = isinstance(node, ast.FunctionDef) and not node.decorator_list
    return plain and not any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(tree))


def _scope(function: types.FunctionType) -> dict[str, Any]:
    """The names a function sees besides its own variables."""
    scope = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            scope[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return scope


_IMMUTABLE = (int, float, bool, str, bytes, complex, type(None), torch.dtype)


def _function_knowledge(scope: Mapping[str, Any], helpers: Collection[str]) -> Knowledge:
    constants = frozenset(name for name, v in scope.items() if isinstance(v, _IMMUTABLE))
    torch_names = frozenset(name for name, v in scope.items() if getattr(v, "__name__", "") == "torch")

    def guarded(name: str) -> bool:
        base, *rest = name.split(".")
        if base in helpers or base not in scope:
            return False
        value = scope[base]
        for part in rest:
            value = getattr(value, part, None)
        module = getattr(value, "__module__", "") or ""
        quiet = isinstance(value, (type, types.BuiltinFunctionType)) or module.split(".")[0] == "torch"
        return callable(value) and not quiet

    return Knowledge(constants=constants, torch_names=torch_names, guarded=guarded)

"""Reading one function: signature, prologue, body, results."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pypto_lab.frontend import calls, outputs, statements, type_forms
from pypto_lab.frontend.context import FunctionState, ProgramState, Signature
from pypto_lab.frontend.environment import Environment
from pypto_lab.frontend.kernels import KernelSource
from pypto_lab.frontend.names import Names
from pypto_lab.frontend.report import Abandoned
from pypto_lab.frontend.signatures import Given, level_and_role, read_params
from pypto_lab.frontend.text import Located, SourceUnavailable, locate_function
from pypto_lab.frontend.typing import mismatch, type_text
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.enums import Direction, FunctionType, Level, Role, SplitMode
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import Type

_KIND_TYPES = {
    "jit": FunctionType.Orchestration,
    "jit.incore": FunctionType.InCore,
    "jit.inline": FunctionType.Inline,
    "jit.opaque": FunctionType.Opaque,
    "jit.host": FunctionType.Opaque,
    "inline": FunctionType.Inline,
}
_CORE_TYPES = {"aic": FunctionType.AIC, "aiv": FunctionType.AIV, "mixed": FunctionType.Group}
_WITHOUT_SELF = frozenset({FunctionType.InCore, FunctionType.AIC, FunctionType.AIV, FunctionType.Group})


@dataclass
class Reading:
    """A function between its signature and its body."""

    state: FunctionState
    kernel: KernelSource
    name: str
    node: ast.FunctionDef
    params: tuple[n.Param, ...]
    returns: tuple[Type, ...] | None
    level: Level | None
    role: Role | None
    outputs: tuple[n.Param, ...]

    @property
    def signature(self) -> Signature:
        return Signature(self.name, self.params, self.returns, self.state.func_type, self.level, self.role, _head(self))


def _head(reading: Reading) -> Span:
    """The span of a function's name in its `def` line."""
    node = reading.node
    where = ast.Pass(lineno=node.lineno, col_offset=node.col_offset)
    where.end_lineno, where.end_col_offset = node.lineno, node.col_offset + len("def ") + len(node.name)
    return reading.state.text.span(where)


def locate(program: ProgramState, kernel: KernelSource) -> Located:
    """The source of a kernel. Raises LabError (E007) when it cannot be found."""
    try:
        located = locate_function(kernel.function)
    except SourceUnavailable as error:
        hint = "put the kernel into a file or a notebook cell"
        raise LabError([Diagnostic("E007", str(error), hint=hint)]) from None
    program.reporter.sources.setdefault(located.text.file, located.whole)
    return located


def function_type(kernel: KernelSource) -> FunctionType:
    """The IR function type of a decorated function."""
    if kernel.kind == "jit.extern":
        return _CORE_TYPES.get(str(kernel.options.get("core_type", "aiv")), FunctionType.AIV)
    if kernel.kind == "function":
        stated = kernel.options.get("type")
        return stated if isinstance(stated, FunctionType) else FunctionType.Opaque
    return _KIND_TYPES[kernel.kind]


def open_function(
    program: ProgramState,
    kernel: KernelSource,
    given: Given,
    *,
    name: str | None = None,
    closure: Mapping[str, Any] | None = None,
) -> Reading:
    """Reads the signature of a kernel. Raises LabError when its source is not available."""
    located = locate(program, kernel)
    func_type = function_type(kernel)
    level, role = _stated_level(kernel)
    auto_scope = kernel.options.get("auto_scope")
    state = FunctionState(
        program=program,
        text=located.text,
        environment=Environment.of(kernel.function, {**(closure or {}), **kernel.closure}),
        names=Names(renames=kernel.is_jit),
        func_type=func_type,
        is_jit=kernel.is_jit,
        strict_ssa=bool(kernel.options.get("strict_ssa", False)),
        auto_scope=auto_scope if isinstance(auto_scope, bool) else None,
        comment_line=located.node.lineno,
    )
    node = located.node
    state.level, final_role, problems = level_and_role(func_type, level, role)
    for problem in problems:
        state.error("E104", problem, node.decorator_list[0] if node.decorator_list else node, hint="leave it out")
    params = read_params(state, node, given)
    written = tuple(p for p in params if p.direction is not Direction.In)
    if func_type is FunctionType.Inline:
        written = _declared_outputs(state, node, params)
    try:
        returns = type_forms.returns(state, node.returns)
    except Abandoned:
        returns = None
    if kernel.is_jit and not _names_several(state, node.returns) and not _is_placeholder(_without_docstring(node)[1]):
        returns = None  # of jit functions only `tuple[...]` counts, else what is returned (2.11, rule 7)
    return Reading(state, kernel, name or kernel.name, node, params, returns, state.level, final_role, written)


def _names_several(state: FunctionState, node: ast.expr | None) -> bool:
    if not isinstance(node, ast.Subscript):
        return False
    is_tuple = isinstance(node.value, ast.Name) and node.value.id == "tuple"
    return is_tuple or state.path(node.value) == "pl.Tuple"


def _declared_outputs(state: FunctionState, node: ast.FunctionDef, params: Sequence[n.Param]) -> tuple[n.Param, ...]:
    """Parameters of an inline function whose annotation says Out or InOut (the direction itself is dropped)."""
    names = {
        a.arg
        for a in (*node.args.posonlyargs, *node.args.args)
        if isinstance(a.annotation, ast.Subscript) and state.path(a.annotation.value) in ("pl.Out", "pl.InOut")
    }
    return tuple(p for p in params if p.name in names)


def _stated_level(kernel: KernelSource) -> tuple[Level | None, Role | None]:
    level, role = kernel.options.get("level"), kernel.options.get("role")
    if kernel.kind == "jit.host":
        return Level.HOST, Role.Orchestrator
    return level if isinstance(level, Level) else None, role if isinstance(role, Role) else None


def read_body(reading: Reading) -> n.Function:
    """Reads the body of an opened function and finishes it."""
    state, node = reading.state, reading.node
    docstring, nodes = _without_docstring(node)
    external = _external(reading, nodes)
    host_worker = state.level is Level.HOST and reading.role is Role.SubWorker
    body: n.Body | None
    if external is not None or _is_placeholder(nodes):
        body = None
    elif host_worker:
        body = (n.InlineText(text=_body_text(state, nodes), span=state.span(nodes[0])),)
    else:
        statements.body(state, _prologue(state, nodes))
        body = _finished(reading)
    if reading.returns is None:
        reading.returns = _returned_types(reading)
    outputs.check(reading.state, reading.params, body)
    return n.Function(
        name=reading.name,
        params=reading.params,
        return_types=reading.returns,
        body=body,
        func_type=state.func_type,
        level=reading.level,
        role=reading.role,
        attrs=_attributes(reading),
        auto_scope=False if state.auto_scope is False else None,
        external_source=external,
        has_self=state.func_type not in _WITHOUT_SELF and not host_worker,
        span=_head(reading),
        docstring=docstring,
    )


def _without_docstring(node: ast.FunctionDef) -> tuple[str | None, list[ast.stmt]]:
    docstring = ast.get_docstring(node)
    return docstring, node.body[1:] if docstring is not None else node.body


def _is_placeholder(nodes: Sequence[ast.stmt]) -> bool:
    """A body of `...` is bound when the program runs."""
    return (
        len(nodes) == 1
        and isinstance(nodes[0], ast.Expr)
        and isinstance(nodes[0].value, ast.Constant)
        and nodes[0].value.value is ...
    )


def _external(reading: Reading, nodes: Sequence[ast.stmt]) -> str | None:
    """The C++ source of an external kernel, whose body is `...` or `pass` (E336)."""
    options = reading.kernel.options
    source = options.get("external_source") or options.get("source") or options.get("aic_source")
    if source is None and reading.kernel.kind != "jit.extern":
        return None
    empty = not nodes or _is_placeholder(nodes) or (len(nodes) == 1 and isinstance(nodes[0], ast.Pass))
    if not empty:
        hint = "write `...` as the body"
        reading.state.error("E336", f"the external kernel `{reading.name}` has a body", nodes[0], hint=hint)
    return str(source) if source is not None else ""


def _body_text(state: FunctionState, nodes: Sequence[ast.stmt]) -> str:
    """The verbatim text of a HOST worker's body."""
    if not nodes:
        return "pass"
    first, last = nodes[0].lineno, nodes[-1].end_lineno or nodes[-1].lineno
    return textwrap.dedent("\n".join(state.text.rows[first - 1 : last]))


def _prologue(state: FunctionState, nodes: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """Reads the leading `pl.func_attr({...})` statements; gives the rest."""
    for index, node in enumerate(nodes):
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call) or state.path(call.func) != "pl.func_attr":
            return nodes[index:]
        try:
            _function_attributes(state, call)
        except Abandoned:
            continue
    return ()


def _function_attributes(state: FunctionState, call: ast.Call) -> None:
    if len(call.args) != 1:
        state.fail("E314", "`pl.func_attr` takes one dict", call, hint='pl.func_attr({"split": pl.SplitMode.UP_DOWN})')
    for key, value in calls.literal_dict(state, call.args[0]).items():
        if key in ("auto_scope", "external_source"):
            hint = f"write it in the decorator: `@pl.function({key}=...)`"
            state.fail("E022", f"`{key}` is no function attribute", call.args[0], hint=hint)
        if key in state.attrs:
            state.fail("E314", f"the attribute {key!r} appears twice", call.args[0])
        if not (key == "split" and value is SplitMode.NONE):
            state.attrs[key] = value


def _attributes(reading: Reading) -> dict[str, Any]:
    attrs = dict(reading.state.attrs)
    tagged = attrs.pop("_dump_vars", None)
    if tagged:
        attrs["dump_vars"] = tagged
    stated = reading.kernel.options.get("attrs")
    if isinstance(stated, Mapping):
        attrs = {**{k: v for k, v in stated.items() if v is not SplitMode.NONE}, **attrs}
    if reading.kernel.options.get("dual_aiv_dispatch"):
        attrs["dual_aiv_dispatch"] = True
    return attrs


# --- results ----------------------------------------------------------------------------------------------------------


def _finished(reading: Reading) -> n.Body:
    """The body; a jit function without `return` gives its first output (2.11, rule 7)."""
    state = reading.state
    stated_none = isinstance(reading.node.returns, ast.Constant) and reading.node.returns.value is None
    if state.is_jit and not state.returns and reading.outputs and not stated_none:
        first = reading.outputs[0]
        binding = state.names.get(first.name)
        var = binding.var if binding is not None else first.var
        state.returns.append(((var,), state.span(reading.node)))
        state.emit(n.Return(values=(var,), span=first.span))
    return tuple(state.body)


def _returned_types(reading: Reading) -> tuple[Type, ...]:
    """The types of the returned values; several `return`s agree."""
    found = reading.state.returns
    if not found:
        without_body = reading.state.is_jit and not reading.state.body
        return (reading.outputs[0].type,) if without_body and reading.outputs else ()
    first = max((values for values, _ in found), key=len)
    for values, span in found:
        if len(values) != len(first):
            message = f"one `return` gives {len(values)} values, another one {len(first)}"
            reading.state.error("E012", message, span, hint="return the same values everywhere")
    return tuple(v.type for v in first)


def check_returns(reading: Reading) -> None:
    """E106: what is returned agrees with the return annotation in number and kind."""
    stated = reading.returns
    if stated is None or reading.node.returns is None:
        return
    for values, span in reading.state.returns:
        if len(values) != len(stated):
            message = f"{len(values)} values are returned, the annotation names {len(stated)}"
            reading.state.error("E106", message, span, hint="return one value for each annotated result")
            continue
        for value, type_ in zip(values, stated, strict=True):
            difference = mismatch(type_, value.type)
            if difference is not None:
                code = "E105" if difference.aspect in ("shape", "rank") else "E106"
                message = f"`{type_text(value.type)}` is returned, the annotation says `{type_text(type_)}`"
                reading.state.error(code, message, value.span or span, hint="correct the annotation")

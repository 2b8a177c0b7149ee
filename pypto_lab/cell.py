"""A notebook cell as a case: runs its text on the stand-ins, then finds kernel, inputs, golden and tolerances.

Everything is looked for in the cell first, then in the notebook's namespace; what was taken is said in `choices`.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import linecache
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pypto_lab.compat.cases import SPEC_FUNCTIONS
from pypto_lab.compat.golden.spec import create_values
from pypto_lab.compat.loader import stand_ins, syntax_error
from pypto_lab.compat.running import allocate, torch_dtype
from pypto_lab.frontend.kernels import KernelSource, ProgramSource, source_of
from pypto_lab.frontend.source import program_of
from pypto_lab.ir import nodes as n
from pypto_lab.ir.arith import constant
from pypto_lab.ir.diagnostics import Diagnostic, LabError, did_you_mean
from pypto_lab.ir.enums import Direction
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import ScalarType, ShapedType
from pypto_lab.numerics.case import Values, clone, seeded
from pypto_lab.view.words import dims, type_words

Source = KernelSource | ProgramSource
ENTRY_KINDS = ("jit", "jit.host", "function")


class UserMistake(Exception):
    """Something the user asked for that cannot be; the message is for them."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that ran. `defined` are the names its top level binds, in order, each once, last binding last."""

    file: str
    text: str
    namespace: dict[str, Any]
    defined: tuple[str, ...]

    def find(self, name: str) -> Any:
        """The object called `name` if the cell defines it, else None."""
        return self.namespace.get(name) if name in self.defined else None

    @contextlib.contextmanager
    def user_code(self) -> Iterator[None]:
        """Runs the user's own functions: stand-ins importable, exceptions turned into diagnostics."""
        with stand_ins():
            try:
                yield
            except (LabError, UserMistake):
                raise
            except Exception as error:
                raise self._described(error) from None

    def _described(self, error: Exception) -> LabError:
        """An exception of the user's code at the innermost line that stands in a cell."""
        span, trace, sources = None, error.__traceback__, {self.file: self.text}
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            rows = self.text.splitlines() if file == self.file else _cell_rows(file)
            if 1 <= trace.tb_lineno <= len(rows):
                row = rows[trace.tb_lineno - 1]
                start = len(row) - len(row.lstrip()) + 1
                span = Span(file, trace.tb_lineno, start, trace.tb_lineno, len(row.rstrip()) + 1)
                sources[file] = "\n".join(rows)
            trace = trace.tb_next
        kind, text = type(error).__name__, str(error).strip()
        code = "E507" if isinstance(error, AssertionError) else "E506"
        return LabError([Diagnostic(code, f"{kind}: {text}" if text else kind, span)], sources)


def _cell_rows(file: str) -> list[str]:
    """The rows of another cell, as IPython and the lab keep them; files have an entry of their own kind."""
    entry = linecache.cache.get(file)
    return [row.rstrip("\n") for row in entry[2]] if entry is not None and len(entry) == 4 and entry[1] is None else []


def run_cell(text: str, namespace: dict[str, Any], name: str) -> Cell:
    """Executes a cell's text in the user's namespace. `name` is shown as its file; lines are the cell's own.

    Raises LabError: E510 for a syntax error, E506 and E507 for an exception of the user's code, the front end's
    findings when the cell itself calls a kernel.
    """
    file = _free_name(name, text)
    try:
        tree = ast.parse(text, file)
        code = compile(text, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise syntax_error(error, file, text) from None
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    cell = Cell(file, text, namespace, _bound_names(tree))
    with cell.user_code():
        exec(code, namespace)
    return cell


def _free_name(name: str, text: str) -> str:
    """`name`, or with a number where another text has it: kernels of earlier runs keep their own text."""
    candidate, count = name, 1
    while candidate in linecache.cache and "".join(linecache.cache[candidate][2]) != text:  # type: ignore[misc]
        count += 1
        candidate = f"{name}.{count}"
    return candidate


def _bound_names(tree: ast.Module) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for node in tree.body:
        found: list[str] = []
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            found = [node.name]
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found = [t.id for target in targets for t in ast.walk(target) if isinstance(t, ast.Name)]
        for name in found:
            names.pop(name, None)
            names[name] = None
    return tuple(names)


# --- what to run and on what -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a run needs. `expected` are the golden's outputs by name, None when there is no golden."""

    name: str
    program: n.Program
    values: Values
    expected: Values | None
    outputs: tuple[str, ...]
    rtol: float | None = None
    atol: float | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user asked for: names and expressions in their namespace; None leaves the choice to the lab."""

    kernel: str | None = None
    inputs: str | None = None
    golden: str | None = None
    seed: int = 0
    tolerance: tuple[float, float] | None = None


def plan(cell: Cell, wishes: Wishes) -> Plan:
    """Chooses kernel, inputs, golden and tolerances, and reads the kernel for these inputs.

    Raises UserMistake for names that are not there and values that do not fit, LabError for the kernel's findings.
    """
    name, source = choose_kernel(cell, wishes.kernel)
    scalars = cell.find("RUNTIME_SCALARS")
    reader = _Reader(source, None if scalars is None else tuple(scalars))
    parameters = _parameters(source, reader)
    values, from_where = _Inputs(cell, reader, parameters, wishes.seed).choose(wishes.inputs)
    program = reader.read(values)
    outputs = tuple(p.name for p in program.entry.params if p.direction is not Direction.In)
    stated = cell.find("OUTPUTS")
    golden, golden_name = _golden(cell, name, wishes.golden)
    expected = None
    if golden is not None:
        expected = _expected(cell, golden, values, parameters, outputs if stated is None else tuple(stated))
    rtol, atol = wishes.tolerance or (cell.find("RTOL"), cell.find("ATOL"))
    choices = (f"inputs: {from_where}", f"golden: {golden_name or 'none (define golden(values), or name one)'}")
    return Plan(name, program, values, expected, outputs, rtol, atol, choices)


def choose_kernel(cell: Cell, wanted: str | None) -> tuple[str, Source]:
    """The kernel called `wanted`, else the last entry the cell defines. Raises UserMistake when there is none."""
    if wanted is not None:
        source = source_of(cell.namespace.get(wanted))
        if source is None:
            known = [name for name, value in cell.namespace.items() if _is_entry(source_of(value))]
            hint = did_you_mean(wanted, known) or f"the kernels here are {', '.join(known) or 'none'}"
            raise UserMistake(f"no kernel `{wanted}`: {hint}")
        return wanted, source
    for name in reversed(cell.defined):
        source = source_of(cell.namespace.get(name))
        if source is not None and _is_entry(source):
            return name, source
    raise UserMistake("no kernel in this cell: decorate a function with @pl.jit or a class with @pl.program")


def _is_entry(source: Source | None) -> bool:
    return isinstance(source, ProgramSource) or (source is not None and source.kind in ENTRY_KINDS)


@dataclass(frozen=True, slots=True)
class _Reader:
    source: Source
    runtime_scalars: tuple[str, ...] | None

    def read(self, values: Mapping[str, Any] | None) -> n.Program:
        with stand_ins():
            return program_of(self.source, values, runtime_scalars=self.runtime_scalars)


def _parameters(source: Source, reader: _Reader) -> dict[str, Any]:
    """Names of the entry's parameters in order, with their Python defaults (`inspect.Parameter.empty` for none)."""
    if isinstance(source, KernelSource):
        found = inspect.signature(source.function).parameters.values()
        return {p.name: p.default for p in found if p.name != "self"}
    return {p.name: inspect.Parameter.empty for p in reader.read(None).entry.params}


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The ways to come by inputs, in the order in which they are tried."""

    cell: Cell
    reader: _Reader
    parameters: Mapping[str, Any]
    seed: int
    namespace: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "namespace", self.cell.namespace)

    def choose(self, expression: str | None) -> tuple[Values, str]:
        """Values by parameter name, and where they come from. Raises UserMistake when they do not fit."""
        if expression is not None:
            return self._named(self._evaluated(expression), f"--inputs {expression}"), f"--inputs {expression}"
        made = self._from_functions() or self._from_variables()
        return made if made is not None else (self._random(), f"random, seed {self.seed}")

    def _evaluated(self, expression: str) -> Any:
        with self.cell.user_code(), seeded(self.seed):
            value = evaluate(expression, self.cell.namespace)
            return _called(value, self.seed) if callable(value) else value

    def _named(self, given: Any, what: str) -> Values:
        """Values by name from a mapping or a sequence in parameter order; outputs left out are allocated."""
        names = list(self.parameters)
        if isinstance(given, Mapping):
            values = dict(given)
            unknown = [name for name in values if name not in names]
            if unknown:
                hint = did_you_mean(str(unknown[0]), names) or f"the parameters are {', '.join(names)}"
                raise UserMistake(f"{what} gives `{unknown[0]}`, which is no parameter: {hint}")
        elif isinstance(given, Sequence) and not isinstance(given, str) and len(given) <= len(names):
            values = dict(zip(names, given, strict=False))
        else:
            raise UserMistake(f"{what} must give a dict by parameter name or a list in the order {', '.join(names)}")
        return self._completed(values, what)

    def _completed(self, values: Values, what: str) -> Values:
        """Adds defaults of scalars and zeroed outputs. Raises UserMistake when an input is missing."""
        for name, default in self.parameters.items():
            if name not in values and default is not inspect.Parameter.empty:
                values[name] = default
        missing = [name for name in self.parameters if name not in values]
        if missing:
            entry = self.reader.read(values).entry
            absent = [p.name for p in entry.params if p.name in missing and p.direction is not Direction.Out]
            if absent:
                raise UserMistake(f"{what} has no value for {', '.join(absent)}")
            values.update(allocate(entry, values))
        return {name: values[name] for name in self.parameters}

    def _from_functions(self) -> tuple[Values, str] | None:
        """`make_inputs(seed)`, or pypto-lib's specs: those of the cell, else those in the namespace that fit."""
        for name in ("make_inputs", *SPEC_FUNCTIONS):
            function = self.namespace.get(name)
            if not callable(function):
                continue
            own = name in self.cell.defined
            with self.cell.user_code(), seeded(self.seed):
                made = _called(function, self.seed) if name == "make_inputs" else create_values(function())
            if own or (isinstance(made, Mapping) and set(made) <= set(self.parameters)):
                place = "" if own else " of an earlier cell"
                return self._named(made, f"{name}()"), f"{name}(){place}"
        return None

    def _from_variables(self) -> tuple[Values, str] | None:
        """Tensors, arrays and numbers named like the parameters, when every input has one."""
        values = {name: self.namespace[name] for name in self.parameters if _is_value(self.namespace.get(name))}
        if not values:
            return None
        try:
            return self._completed(dict(values), "the namespace"), f"variables {', '.join(values)}"
        except (LabError, UserMistake):
            return None

    def _random(self) -> Values:
        import torch

        entry = self.reader.read(None).entry
        generator = torch.Generator().manual_seed(self.seed)
        return {p.name: self._random_value(p, generator) for p in entry.params}

    def _random_value(self, param: n.Param, generator: Any) -> Any:
        import torch

        type_ = param.type
        if isinstance(type_, ScalarType) or not isinstance(type_, ShapedType):
            default = self.parameters.get(param.name, inspect.Parameter.empty)
            if default is inspect.Parameter.empty:
                raise UserMistake(f"no value for the scalar `{param.name}`: set a variable of this name, or --inputs")
            return default
        shape = [constant(d) for d in type_.shape]
        if None in shape:
            raise UserMistake(
                f"`{param.name}` is {type_words(type_)} and the size {dims(type_.shape)} is not known: set a variable "
                "of this name, or --inputs"
            )
        sizes, dtype = [s for s in shape if s is not None], torch_dtype(type_.dtype)
        if param.direction is Direction.Out:
            return torch.zeros(sizes, dtype=dtype)
        if type_.dtype.is_float:
            return torch.randn(sizes, generator=generator).to(dtype)
        if dtype is torch.bool:
            return torch.randint(0, 2, sizes, generator=generator).bool()
        low = -8 if type_.dtype.is_signed else 0
        return torch.randint(low, 8, sizes, generator=generator).to(dtype)


def _is_value(value: Any) -> bool:
    return isinstance(value, numbers.Number) or (hasattr(value, "shape") and hasattr(value, "dtype"))


def _called(function: Callable[..., Any], seed: int) -> Any:
    """Calls a function that makes inputs, with the seed if it takes one."""
    takes = inspect.signature(function).parameters
    return function(seed) if takes else function()


def evaluate(expression: str, namespace: dict[str, Any]) -> Any:
    """The value of a Python expression in the user's namespace. Raises UserMistake for anything but an expression."""
    try:
        code = compile(expression, "<argument>", "eval", dont_inherit=True)
    except SyntaxError as error:
        raise UserMistake(f"`{expression}` is not a Python expression: {error.msg}") from None
    try:
        return eval(code, namespace)
    except NameError as error:
        name = getattr(error, "name", "") or expression
        hint = did_you_mean(name, [k for k in namespace if not k.startswith("_")])
        raise UserMistake(f"`{name}` is not defined" + (f": {hint}" if hint else "")) from None


def _golden(cell: Cell, kernel: str, wanted: str | None) -> tuple[Callable[..., Any] | None, str]:
    """The golden function and its name: the one asked for, else the cell's, else the namespace's."""
    if wanted is not None:
        with cell.user_code():
            function = evaluate(wanted, cell.namespace)
        if not callable(function):
            raise UserMistake(f"--golden {wanted} is not a function")
        return function, wanted
    for name in (f"golden_{kernel}", "golden", *(d for d in cell.defined if d.startswith("golden_"))):
        function = cell.namespace.get(name)
        if callable(function):
            return function, name + ("" if name in cell.defined else " of an earlier cell")
    return None, ""


def _expected(
    cell: Cell,
    golden: Callable[..., Any],
    values: Values,
    parameters: Mapping[str, Any],
    outputs: tuple[str, ...],
) -> Values:
    """What the golden computes. `golden(values)` fills the outputs of a dict in place; a golden whose parameters are
    named like the kernel's gets those values and returns the outputs."""
    reference = clone(values)
    takes = [p.name for p in inspect.signature(golden).parameters.values() if p.default is inspect.Parameter.empty]
    with cell.user_code():
        if takes and all(name in parameters for name in takes):
            returned = golden(**{name: reference[name] for name in takes})
        else:
            returned = golden(reference)
    if returned is None:
        return {name: reference[name] for name in outputs}
    if isinstance(returned, Mapping):
        return {name: returned[name] for name in outputs if name in returned}
    several = returned if isinstance(returned, (tuple, list)) else (returned,)
    if len(several) != len(outputs):
        raise UserMistake(f"the golden returns {len(several)} values, the outputs are {', '.join(outputs)}")
    return dict(zip(outputs, several, strict=True))

"""Writing `.pto` text the way the compiler lays it out: body lines in the column of `func.func`, `return`, floats with
17 digits, and a location after every op that has one."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import FileLineColLoc, FloatAttr, IntegerAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.printer import Printer

from pypto_lab.pto.dialect.reader import BareWhileOp
from pypto_lab.pto.parse import Unit

if TYPE_CHECKING:
    from typing import IO


def print_unit(unit: Unit, *, locations: bool = True) -> str:
    """The text of a unit that was read, with its own value names."""
    return print_module(
        unit.module, names=unit.names, locations=locations, short_tiles=unit.short_tiles, literals=unit.literals
    )


def print_module(
    module: ModuleOp,
    *,
    names: Mapping[SSAValue, str] | None = None,
    locations: bool = True,
    short_tiles: bool = False,
    literals: Mapping[Operation, str] | None = None,
) -> str:
    """The text of a module.

    `names` are the values' names without `%`; others take their name hint, or a number. `locations=False` leaves out
    `loc(...)`; `short_tiles` writes tile types in the short form; `literals` are float constants already spelled.
    """
    stream = io.StringIO()
    printer = Writer(stream, dict(names or {}), locations, short_tiles, literals or {})
    printer.print_op(module)
    return stream.getvalue() + "\n"


class Writer(Printer):
    """The layout of `.pto` text; ops of the dialect print themselves through it."""

    def __init__(
        self,
        stream: IO[str],
        names: dict[SSAValue, str],
        locations: bool,
        short_tiles: bool,
        literals: Mapping[Operation, str],
    ) -> None:
        super().__init__(stream)
        self._literals = literals
        self.short_tiles = short_tiles
        self._locations = locations
        self._ssa_values.update(names)
        self._depth = 0
        self._own: dict[type[Operation], Callable[..., None]] = {
            ModuleOp: self._module,
            func.FuncOp: self._function,
            func.ReturnOp: self._return,
            arith.ConstantOp: self._constant,
            scf.ForOp: self._for,
            scf.IfOp: self._if,
            scf.WhileOp: self._while,
            BareWhileOp: self._while,
        }

    # --- layout -------------------------------------------------------------------------------------------------------

    def _line(self, extra: int = 0) -> None:
        self.print_string("\n" + "  " * (self._depth + extra))

    def line_apart(self) -> None:
        """A line break before operands that stand on a line of their own."""
        self._line(2)

    def print_op(self, op: Operation) -> None:
        self._print_results(op)
        own = self._own.get(type(op))
        if own is not None:
            own(op)
        elif type(op).print is Operation.print:
            self.print_string(f'"{op.name}"')
            self.print_op_with_default_format(op)
        else:
            self.print_string(op.name)
            op.print(self)
        self._location(op)

    def _location(self, op: Operation) -> None:
        where = op.location
        if not self._locations or isinstance(where, UnknownLoc):
            return
        if isinstance(where, FileLineColLoc):
            name = where.filename.data
            self.print_string(f' loc("{name}":{where.line.data}:{where.column.data})')
        else:
            self.print_string(" ")
            self.print_attribute(where)

    def _body(self, block: Block | None, *, implicit_yield: bool, indent: int = 1) -> None:
        self._depth += indent
        for op in block.ops if block is not None else ():
            if implicit_yield and isinstance(op, scf.YieldOp) and not op.operands:
                continue
            self._line()
            self.print_op(op)
        self._depth -= indent

    def _region(self, region: Region, *, implicit_yield: bool) -> None:
        self.print_string("{")
        self._body(region.blocks.first, implicit_yield=implicit_yield)
        self._line()
        self.print_string("}")

    def _attributes(self, attributes: Mapping[str, Attribute]) -> None:
        if attributes:
            self.print_string(" attributes ")
            self.print_attr_dict(attributes)

    # --- ops whose layout is the text's own ---------------------------------------------------------------------------

    def _module(self, op: ModuleOp) -> None:
        self.print_string("module")
        if op.sym_name is not None:
            self.print_string(f" @{op.sym_name.data}")
        self._attributes(op.attributes)
        self._region_of_module(op)

    def _region_of_module(self, op: ModuleOp) -> None:
        self.print_string(" {")
        self._body(op.body.blocks.first, implicit_yield=False)
        self._line()
        self.print_string("}")

    def _function(self, op: func.FuncOp) -> None:
        visibility = f"{op.sym_visibility.data} " if isinstance(op.sym_visibility, StringAttr) else ""
        self.print_string(f"func.func {visibility}@{op.sym_name.data}")
        entry = op.body.blocks.first
        with self.in_parens():
            if entry is None:
                self.print_list(op.function_type.inputs.data, self.print_attribute)
            else:
                self.print_list(entry.args, self.print_block_argument)
        results = op.function_type.outputs.data
        if results:
            self.print_string(" -> ")
            if len(results) == 1:
                self.print_attribute(results[0])
            else:
                with self.in_parens():
                    self.print_list(results, self.print_attribute)
        self._attributes(op.attributes)
        if entry is None:
            return
        self.print_string(" {")
        self._body(entry, implicit_yield=False, indent=0)
        self._line()
        self.print_string("}")

    def _return(self, op: func.ReturnOp) -> None:
        self.print_string("return")
        if op.operands:
            self.print_string(" ")
            self.print_list(op.operands, self.print_ssa_value)
            self.print_string(" : ")
            self.print_list([v.type for v in op.operands], self.print_attribute)

    def _constant(self, op: arith.ConstantOp) -> None:
        value = op.value
        self.print_string("arith.constant ")
        if isinstance(value, FloatAttr) and math.isfinite(value.value.data):
            self.print_string(f"{self._literals.get(op) or format(value.value.data, '.17e')} : ")
            self.print_attribute(value.type)
        elif isinstance(value, FloatAttr):
            self.print_string(f"0x{value.type.pack((value.value.data,))[::-1].hex().upper()} : ")
            self.print_attribute(value.type)
        elif isinstance(value, IntegerAttr) and str(value.type) != "i1":
            self.print_string(f"{value.value.data} : ")
            self.print_attribute(value.type)
        else:
            self.print_attribute(value)

    def _for(self, op: scf.ForOp) -> None:
        body = op.body.block
        self.print_string("scf.for ")
        self.print_ssa_value(body.args[0])
        for word, value in ((" = ", op.lb), (" to ", op.ub), (" step ", op.step)):
            self.print_string(word)
            self.print_ssa_value(value)
        if op.iter_args:
            self.print_string(" iter_args(")
            self._pairs(tuple(body.args)[1:], tuple(op.iter_args))
            self.print_string(") -> (")
            self.print_list([r.type for r in op.results], self.print_attribute)
            self.print_string(")")
        if str(op.lb.type) != "index":
            self.print_string(" : ")
            self.print_attribute(op.lb.type)
        self.print_string(" ")
        self._region(op.body, implicit_yield=True)

    def _pairs(self, inner: tuple[SSAValue, ...], outer: tuple[SSAValue, ...]) -> None:
        for position, (left, right) in enumerate(zip(inner, outer, strict=True)):
            self.print_string(", " if position else "")
            self.print_ssa_value(left)
            self.print_string(" = ")
            self.print_ssa_value(right)

    def _if(self, op: scf.IfOp) -> None:
        self.print_string("scf.if ")
        self.print_ssa_value(op.cond)
        if op.results:
            self.print_string(" -> (")
            self.print_list([r.type for r in op.results], self.print_attribute)
            self.print_string(")")
        self.print_string(" ")
        self._region(op.true_region, implicit_yield=not op.results)
        if op.false_region.blocks.first is not None:
            self.print_string(" else ")
            self._region(op.false_region, implicit_yield=not op.results)

    def _while(self, op: scf.WhileOp) -> None:
        before, after = op.before_region.block, op.after_region.block
        self.print_string("scf.while ")
        if op.operands:
            self.print_string("(")
            self._pairs(tuple(before.args), tuple(op.operands))
            self.print_string(") ")
        self.print_string(": ")
        with self.in_parens():
            self.print_list([v.type for v in op.operands], self.print_attribute)
        self.print_string(" -> ")
        with self.in_parens():
            self.print_list([r.type for r in op.results], self.print_attribute)
        self.print_string(" ")
        self._region(op.before_region, implicit_yield=False)
        self.print_string(" do {")
        if after.args:
            self._line()
            self.print_string("^bb0(")
            for position, argument in enumerate(after.args):
                self.print_string(", " if position else "")
                self.print_ssa_value(argument)
                self.print_string(" : ")
                self.print_attribute(argument.type)
            self.print_string("):")
        self._body(after, implicit_yield=False)
        self._line()
        self.print_string("}")


__all__ = ["Writer", "print_module", "print_unit"]

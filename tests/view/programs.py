"""Small programs built by hand for the tests of the views."""

from __future__ import annotations

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import Direction, FunctionType, MemorySpace, SplitMode
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import TensorType, TileType, TileView, UnknownType

FILE = "kernel.py"
TEXT = """@pl.jit
def rows(x, out):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="soft"):
        for c in pl.range(3):
            r0 = c * 16
            part = pl.slice(x, [16, 64], [r0, 0])
            total = pl.add(total, part)
            out[r0 : r0 + 16, :] = pl.exp(pl.mul(part, 0.5))
    return out
"""


def at(line: int) -> Span:
    return Span(FILE, line, 5, line, 20)


def tensor(*shape: int) -> TensorType:
    return TensorType(tuple(n.const(s) for s in shape), dtypes.FP32)


def tile(*shape: int, space: MemorySpace, valid: tuple[int, ...] | None = None) -> TileType:
    view = None if valid is None else TileView(valid_shape=tuple(n.const(v) for v in valid))
    return TileType(tuple(n.const(s) for s in shape), dtypes.FP32, view, space)


def call(op: str, type_: object, *args: n.Expr, **kwargs: object) -> n.OpCall:
    return n.OpCall(op=op, args=args, kwargs=kwargs, type=type_)  # type: ignore[arg-type]


def ints(*values: n.Expr | int) -> n.MakeTuple:
    elements = tuple(v if isinstance(v, n.Expr) else n.const(v) for v in values)
    return n.MakeTuple(elements=elements, type=UnknownType())


def loop_program() -> n.Program:
    """A loop that carries `total` and writes `out` in pieces, as user code has it before SSA."""
    x, out = n.Var(name="x", type=tensor(48, 64)), n.Var(name="out", type=tensor(48, 64))
    total, part = n.Var(name="total", type=tensor(16, 64)), n.Var(name="part", type=tensor(16, 64))
    c, r0 = n.Var(name="c", type=n.INDEX), n.Var(name="r0", type=n.INDEX)
    body: n.Body = (
        n.Assign(var=r0, value=n.Binary(op="Mul", left=c, right=n.const(16), type=n.INDEX), span=at(5)),
        n.Assign(var=part, value=call("tensor.slice", part.type, x, ints(16, 64), ints(r0, 0)), span=at(6)),
        n.Assign(var=total, value=call("tensor.add", total.type, total, part), span=at(7)),
        n.Assign(
            var=out,
            value=call(
                "tensor.assemble",
                out.type,
                out,
                call("tensor.exp", part.type, call("tensor.muls", part.type, part, n.const(0.5))),
                ints(r0, 0),
            ),
            span=at(8),
        ),
    )
    loop = n.For(loop_var=c, start=n.const(0), stop=n.const(3), step=n.const(1), body=body, span=at(4))
    zero = n.Assign(var=total, value=call("tensor.full", total.type, ints(16, 64), n.const(0.0)), span=at(3))
    scope = n.InCoreScope(body=(zero, loop), name_hint="soft", span=at(3))
    rows = n.Function(
        name="rows",
        params=(n.Param(var=x), n.Param(var=out, direction=Direction.Out)),
        return_types=(out.type,),
        body=(scope, n.Return(values=(out,), span=at(9))),
        func_type=FunctionType.Orchestration,
        span=at(2),
    )
    return n.Program(name="demo", functions={"rows": rows}, sources={FILE: TEXT})


def mixed_program() -> n.Program:
    """A cube lane that pushes its accumulator to the vector lanes, in a group, as the compiler's dumps have it."""
    a, w, out = (n.Var(name=name, type=tensor(64, 32)) for name in ("a", "w", "out"))
    left = n.Var(name="a_left", type=tile(64, 32, space=MemorySpace.Left))
    right = n.Var(name="w_right", type=tile(32, 32, space=MemorySpace.Right))
    acc = n.Var(name="acc", type=tile(64, 32, space=MemorySpace.Acc))
    half = n.Var(name="half", type=tile(32, 32, space=MemorySpace.Vec, valid=(17, 32)))
    lane = n.Var(name="lane", type=n.INDEX)
    written = n.Var(name="out_v1", type=out.type)
    row = n.Binary(op="Mul", left=lane, right=n.const(32), type=n.INDEX)
    cube = n.Function(
        name="mm_aic",
        params=(n.Param(var=a), n.Param(var=w)),
        return_types=(),
        body=(
            n.Assign(var=left, value=call("tile.load", left.type, a, ints(0, 0), ints(64, 32)), span=at(2)),
            n.Assign(var=right, value=call("tile.load", right.type, w, ints(0, 0), ints(32, 32)), span=at(3)),
            n.Assign(var=acc, value=call("tile.matmul", acc.type, left, right), span=at(4)),
            n.Eval(expr=call("tile.tpush_to_aiv", UnknownType(), acc, split=1), span=at(5)),
        ),
        func_type=FunctionType.AIC,
    )
    vector = n.Function(
        name="mm_aiv",
        params=(n.Param(var=out, direction=Direction.InOut),),
        return_types=(out.type,),
        body=(
            n.Assign(var=lane, value=call("tile.get_subblock_idx", n.INDEX), span=at(6)),
            n.Assign(var=half, value=call("tile.tpop_from_aic", half.type, split=1), span=at(7)),
            n.Assign(var=written, value=call("tile.store", out.type, half, ints(row, 0), out), span=at(8)),
            n.Return(values=(out,), span=at(9)),
        ),
        func_type=FunctionType.AIV,
    )
    o2, a2, w2 = (n.Var(name=name, type=tensor(64, 32)) for name in ("out", "a", "w"))
    group = n.Function(
        name="mm",
        params=(n.Param(var=a2), n.Param(var=w2), n.Param(var=o2, direction=Direction.InOut)),
        return_types=(out.type,),
        body=(
            n.Eval(expr=n.FunctionCall(callee="mm_aic", args=(a2, w2), type=UnknownType())),
            n.Eval(expr=n.FunctionCall(callee="mm_aiv", args=(o2,), type=out.type)),
            n.Return(values=(o2,)),
        ),
        func_type=FunctionType.Group,
        attrs={"split": SplitMode.UP_DOWN},
    )
    return n.Program(name="mixed", functions={f.name: f for f in (cube, vector, group)})

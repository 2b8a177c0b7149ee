"""Every diagnostic code of the passes: what it means and what to write instead (`pypto-lab explain CODE`)."""

from __future__ import annotations

from pypto_lab.ir.codes import Code

_ENTRIES = (
    Code(
        "E801",
        "a loop that cannot be unrolled",
        "`pl.unroll` copies its body, so start, stop and step are known when the kernel is lowered, the step is not 0, "
        "and the copies stay few.",
        "for i in pl.unroll(n):",
        "for i in pl.range(n):",
    ),
    Code(
        "E802",
        "a value that may not exist",
        "The value is assigned only inside a loop and read after it. If the loop never runs there is none, and its "
        "type has no value to start with.",
        "for i in pl.range(n):\n    flags = pl.array.create(4, pl.INT32)\nx = flags[0]",
        "flags = pl.array.create(4, pl.INT32)\nfor i in pl.range(n):\n    flags[0] = i\nx = flags[0]",
    ),
    Code(
        "E803",
        "inline functions in a circle",
        "A call of an inline function becomes its body, which has no end when the functions call each other. The "
        "message shows the chain.",
        "@pl.jit.inline\ndef f(x): return g(x)\n\n@pl.jit.inline\ndef g(x): return f(x)",
        "@pl.jit.inline\ndef f(x): return pl.exp(x)\n\n@pl.jit.inline\ndef g(x): return f(x)",
    ),
    Code(
        "E804",
        "an inline call in a loop's condition",
        "The condition of a `while` is evaluated each time round; the body of an inline function cannot stand there.",
        "while again(i):\n    i = i + 1",
        "going = again(i)\nwhile going:\n    i = i + 1\n    going = again(i)",
    ),
    Code(
        "E805",
        "a jump that has no structured form",
        "On a core `continue` becomes if/else and `break` a flag the loop asks. That needs a loop with a constant step "
        "that carries nothing by hand (`init_values`), and a jump that stays inside its scope.",
        "for i in pl.range(0, n, step):\n    if i > last:\n        break",
        "for i in pl.range(0, n, 2):\n    if i > last:\n        break",
    ),
    Code(
        "E806",
        "a tensor without a tile form",
        "On a core a tensor is a tile, unless it names a parameter's memory. Here neither is possible.",
        "rows = pl.add(table, 1.0)\nkv = pl.gather_row(kv, rows, [0, 0], [i, 0], [1, 64])",
        "kv = pl.gather_row(kv, table, [0, 0], [i, 0], [1, 64])",
    ),
    Code(
        "E807",
        "a tile of dynamic size",
        "A tile takes a fixed number of bytes. A tensor of dynamic shape is read through a window of constant shape; "
        "what of it is valid may be dynamic.",
        "y = pl.mul(x, 2.0)    # x is [ROWS, 64]",
        "part = pl.slice(x, [16, 64], [i * 16, 0], valid_shape=[pl.min(16, rows - i * 16), 64])\ny = pl.mul(part, 2.0)",
    ),
    Code(
        "E808",
        "a value carried in two memories",
        "What a loop carries lies in one memory. Here it enters in one and comes round in another, and moving it does "
        "not settle that.",
        "for k in pl.range(4):\n    acc = pl.exp(acc) if k else pl.matmul(a, b)",
        "acc = pl.matmul(a, b, out_dtype=pl.FP32)\nfor k in pl.range(4):\n    acc = pl.matmul_acc(acc, a, b)",
    ),
    Code(
        "E809",
        "an op that no tile op says",
        "The op has a meaning on tensors, but there is no tile op for it, or not with these keywords or along this "
        "axis.",
        "m = pl.tensor.row_max(x, axis=0)",
        "m = pl.col_max(x)",
    ),
    Code(
        "E810",
        "an N-D tile that is no matrix",
        "A core works on matrices: the leading axes of an N-D tile are taken together. That is possible where the rows "
        "of what is loaded, stored or cut lie one after another, and where its valid part is a rectangle.",
        "t = x[0:2, 1:3, :]      # of [2, 4, 64]",
        "t = x[0:2, :, :]",
    ),
    Code(
        "E811",
        "a move that does not exist",
        "Tiles move from Mat to Left and Right, from the accumulator to Vec and Mat, and from Vec to Mat. Nothing "
        "moves into the accumulator: a sum starts with a product.",
        "acc = pl.full([32, 32], dtype=pl.FP32, value=1.0)\nacc = pl.matmul_acc(acc, a, b)",
        "acc = pl.matmul(a, b, out_dtype=pl.FP32)\nout[:] = pl.add(acc, 1.0)",
    ),
    Code(
        "E812",
        "two splits in one function",
        "A function is divided between the lanes in one way: the mode of `pl.split` and that of `pl.split_aiv` agree.",
        "with pl.at(..., optimizations=[pl.split(pl.SplitMode.UP_DOWN)]):\n"
        "    for lane in pl.split_aiv(2, mode=pl.SplitMode.LEFT_RIGHT):",
        "with pl.at(...):\n    for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):",
    ),
    Code(
        "E813",
        "an extent that does not divide",
        "Each lane takes half of a tile along the split axis, so the extent is even and known when the kernel is "
        "lowered.",
        "acc = pl.matmul(a, b)   # [33, 32], split UP_DOWN",
        "acc = pl.matmul(a, b)   # [32, 32], split UP_DOWN",
    ),
    Code(
        "E814",
        "an op that would mix the lanes",
        "A lane sees only its half of a split tile. A transpose, or a reduction along the split axis, needs both "
        "halves.",
        "total = pl.col_sum(acc)  # split UP_DOWN",
        "total = pl.col_sum(acc)  # split LEFT_RIGHT",
    ),
    Code(
        "E815",
        "a value that cannot cross cores",
        "What goes from the cube to a vector core, or back, goes through the slots of a pipe, so it has a constant "
        "shape; what a mixed function returns was written to a parameter.",
        "acc = pl.matmul(a[0:n, :], b)\nout[0:n, :] = pl.exp(acc)",
        "acc = pl.matmul(pl.slice(a, [16, 64], [0, 0], valid_shape=[n, 64]), b)",
    ),
    Code(
        "E816",
        "memory that both cores use",
        "Inside one function nothing orders a read of one core after a write of the other. In two functions the "
        "orchestration orders them.",
        "with pl.at(...):\n    scratch[:] = pl.exp(x)\n    out[:] = pl.matmul(scratch, w)",
        "with pl.at(...):\n    scratch[:] = pl.exp(x)\nwith pl.at(...):\n    out[:] = pl.matmul(scratch, w)",
    ),
    Code(
        "E817",
        "tiles that do not fit",
        "The tiles that are in use at the same time are larger than their memory. The message says how much they need "
        "and the note names the biggest.",
        "y = pl.exp(x)           # [512, 512] FP32 is a megabyte",
        "for i in pl.range(32):\n    y[i * 16 : i * 16 + 16, :] = pl.exp(x[i * 16 : i * 16 + 16, :])",
    ),
    Code(
        "E818",
        "a tile this pipeline cannot place",
        "Tiles get their addresses at the end of the lowering, so their size is known and none is pinned by hand.",
        "t: pl.Tile[[16, 64], pl.FP32, pl.MemRef(0x400, 4096, 0)] = pl.load(x, [0, 0], [16, 64])",
        "t = pl.load(x, [0, 0], [16, 64])",
    ),
    Code(
        "E819",
        "an accumulator that would be copied",
        "An op that works in place would overwrite a value that is read later, or a loop would carry a value that lies "
        "elsewhere. Vector tiles are copied then; accumulators cannot be.",
        "first = pl.matmul(a, b)\nboth = pl.matmul_acc(first, c, d)\nx[:] = first\ny[:] = both",
        "first = pl.matmul(a, b)\nx[:] = first\nboth = pl.matmul_acc(pl.matmul(a, b), c, d)\ny[:] = both",
    ),
    Code(
        "E820",
        "a product that is too large",
        "The factors or the result of a product do not fit the cube's memories, and it cannot be computed in parts: "
        "its extents are no multiples of 16, what it sums up is only partly valid, or its result is read by more than "
        "a store or a cast to a factor.",
        "acc = pl.matmul(a, b)   # [512, 512] FP32\nout[:] = pl.exp(acc)",
        "for i in pl.range(8):\n"
        "    acc = pl.matmul(a[i * 64 : i * 64 + 64, :], b)\n"
        "    out[i * 64 : i * 64 + 64, :] = pl.exp(acc)",
    ),
)

CODES: dict[str, Code] = {entry.code: entry for entry in _ENTRIES}

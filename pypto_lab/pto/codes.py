"""Every diagnostic code of `.pto` texts, their runs, and what stands around them: what it means, and what to write."""

from __future__ import annotations

from pypto_lab.ir.codes import Code
from pypto_lab.pto import build_codes

_TEXTS = (
    Code(
        "E600",
        "a `.pto` that cannot be used",
        "The file is not there or is no text, a program has no `.pto` for a kernel it launches, or xDSL, which "
        "holds the dialect, is not installed.",
        "read('build/ptoas/sofmax.pto')",
        "read('build/ptoas/softmax.pto')",
    ),
    Code(
        "E601",
        "not `.pto` text",
        "The text is no MLIR module: a bracket or quote is left open, a type or an attribute is misspelt, or the "
        "file was cut off.",
        "pto.tadd ins(%a, %b : !pto.tile_buf<...>, !pto.tile_buf<...> outs(%c : ...)",
        "pto.tadd ins(%a, %b : !pto.tile_buf<...>, !pto.tile_buf<...>) outs(%c : ...)",
    ),
    Code(
        "E602",
        "unknown op in `.pto` text",
        "No op of the dialect has this name. Names of newer assemblers that the lab does not know are reported so too.",
        "pto.tlaod ins(%p : ...) outs(%t : ...)",
        "pto.tload ins(%p : ...) outs(%t : ...)",
    ),
    Code(
        "E603",
        "operands or types that do not fit",
        "An op has another number of operands than it takes, or operands of types it does not take; an assembler "
        "refuses the text.",
        "pto.tadd ins(%a : T) outs(%c : T)",
        "pto.tadd ins(%a, %b : T, T) outs(%c : T)",
    ),
    Code(
        "E604",
        "a layout that a memory does not have",
        "Each on-chip memory holds its tiles in certain orders: vec plain rows (or a plain column), mat, left, "
        "right and acc boxes of a fixed kind.",
        "!pto.tile_buf<loc=acc, ..., blayout=row_major, slayout=none_box, fractal=512>",
        "!pto.tile_buf<loc=acc, ..., blayout=col_major, slayout=row_major, fractal=1024>",
    ),
    Code(
        "E605",
        "extents that do not fit",
        "Rows, columns or valid extents of an op's tiles contradict each other, or a tile is larger than what it "
        "is cut from.",
        "pto.tadd ins(%a, %b : 16x64, 16x32) outs(%c : 16x64)",
        "pto.tadd ins(%a, %b : 16x64, 16x64) outs(%c : 16x64)",
    ),
    Code(
        "E606",
        "an address that cannot be",
        "A tile starts at an address that is not aligned, ends behind its memory, or shares part of its bytes with an "
        "input of the op that writes it.",
        "pto.alloc_tile addr = %c12_i64 ...",
        "pto.alloc_tile addr = %c32_i64 ...",
    ),
    Code(
        "E607",
        "an op that works row by row on another layout",
        "Most vector ops take row-major tiles only. A boxed (NZ) tile must be moved to a row-major one first; an "
        "assembler refuses the text.",
        "pto.trowexpandmul ins(%nz, %f : ...) outs(%nz : ...)",
        "pto.tmov ins(%nz : ...) outs(%rows : ...)\npto.trowexpandmul ins(%rows, %f : ...) outs(%rows : ...)",
    ),
    Code(
        "E610",
        "no `.pto` form",
        "The program holds something that `.pto` text cannot say, or that the passes should have replaced before.",
        "y: pl.Tile[...] = pl.tile.full(..., value=n)   # an unknown width",
        "lower the program with all passes first",
    ),
    Code(
        "E611",
        "a tile's layout does not fit the op",
        "The text would be refused: the op works row by row and a tile of the program is boxed.",
        "pl.tile.row_expand_mul(acc, factor)",
        "pl.tile.row_expand_mul(pl.tile.move(acc, target_memory=pl.Mem.Vec), factor)",
    ),
    Code(
        "E612",
        "nothing to emit",
        "The architecture is unknown, or the program has no function that runs on a core.",
        "emit(program, 'a3')",
        "emit(program, 'a2a3')",
    ),
)

_RUNS = (
    Code(
        "E620",
        "a tile is read that nothing has written",
        "The bytes hold whatever was there before. Simulators that start with zeros do not show it.",
        "pto.tadd ins(%never_loaded, %b : ...) outs(%c : ...)",
        "pto.tload ins(%p : ...) outs(%a : ...)\npto.tadd ins(%a, %b : ...) outs(%c : ...)",
    ),
    Code(
        "E621",
        "an undefined element reaches an output",
        "Elements outside the valid part of a tile, or never written at all, are stored.",
        "pto.tstore ins(%t : 16x64, 10 rows of them valid) outs(%p : 16x64)",
        "pto.tstore ins(%t : ...) outs(%p : 10x64)",
    ),
    Code(
        "E622",
        "outside a tensor or a memory",
        "A partition reaches outside its tensor, or a tile outside its memory.",
        "pto.partition_view %v, offsets = [%c56, %c0], sizes = [%c16, %c64]   # of 64 rows",
        "pto.partition_view %v, offsets = [%c48, %c0], sizes = [%c16, %c64]",
    ),
    Code(
        "E623",
        "a negative offset becomes 0",
        "The text clamps run-time offsets at 0, so a negative one reads or writes row 0 without a word.",
        "x[i - 1 : i + 15]   # at i = 0",
        "for i in pl.range(1, n): ...",
    ),
    Code(
        "E624",
        "a bad address at run time",
        "An address is not a multiple of 32 bytes, or has no value.",
        "pto.alloc_tile addr = %odd ...",
        "pto.alloc_tile addr = %aligned ...",
    ),
    Code(
        "E625",
        "a bad extent at run time",
        "A valid extent is negative or larger than its tile, or a loop's step is not positive.",
        "pto.set_validshape %t, %minus_one, %cols : ...",
        "rows = pl.max(n - r0, 0)",
    ),
    Code(
        "E626",
        "blocks or lanes write the same elements",
        "Two blocks or lanes of one launch write the same place, and which of them comes last is chance.",
        "y[0:16] = t            # in every block",
        "y[b * 16 : (b + 1) * 16] = t",
    ),
    Code(
        "E627",
        "the cores wait for each other",
        "Every core waits for a tile or for a free slot that nobody will give.",
        "pl.tile.tpop_from_aic(...)   # twice, and one push",
        "one pop for each push",
    ),
    Code(
        "E628",
        "a pipe used wrongly",
        "A push or pop without an initialised pipe, tiles of different sizes at its ends, or a slot that is not freed.",
        "pto.tpop_from_aic without pto.tfree_from_aic",
        "pop, use, free - for each slot",
    ),
    Code(
        "E629",
        "not modelled",
        "The lab's machine does not know what this op does on the device. The run says so instead of guessing.",
        "pto.trandom ...",
        "check this kernel with the assembler and a simulation",
    ),
    Code(
        "E630",
        "an argument that does not fit",
        "A kernel is called with another number of arguments, or with a tensor of another dtype, than its function "
        "takes.",
        "execute(unit, 'f', [x])",
        "execute(unit, 'f', [x, y])",
    ),
    Code(
        "E631",
        "a loop without an end",
        "A loop took more trips than a kernel can sensibly take: a step of 0, or a condition that nothing changes.",
        "scf.for %i = %c0 to %c8 step %c0 { ... }",
        "scf.for %i = %c0 to %c8 step %c1 { ... }",
    ),
    Code(
        "E632",
        "a slot is written while it is read",
        "A pipe's ring lies over bytes that something else still uses.",
        "pto.reserve_buffer {..., base = 0}   # where a tile lies",
        "pto.reserve_buffer {..., base = 8192}",
    ),
    Code(
        "W620",
        "a tile written for nothing",
        "A loop updates a tile that neither it nor anything after it reads: the update is lost.",
        "acc_n = acc + t   # at another address than acc",
        "acc = acc + t",
    ),
    Code(
        "W621",
        "a tile is overwritten while it is still needed",
        "Two tiles share bytes, and the older one is read after the younger one was written.",
        "a at 0, b at 0: write a, write b, read a",
        "a at 0, b at 4096",
    ),
    Code(
        "W622",
        "an offset beyond 32 bits",
        "Assemblers compute offsets with 32 bits; a linear offset above 2^31 elements wraps on the device.",
        "x[70000 * 65536 + c]",
        "hand over a part of the tensor and index inside it",
    ),
    Code(
        "W623",
        "bytes read in another layout",
        "A tile is read through a handle of another order of elements than it was written through.",
        "%b = pto.treshape %nz : NZ -> ND",
        "pto.tmov ins(%nz : ...) outs(%nd : ...)",
    ),
)

_SIMULATION = (
    Code(
        "E640",
        "no PTO-ISA headers",
        "The simulation of kernels on the CPU compiles against PTO-ISA, which the lab does not ship. PTO_ISA_ROOT "
        "names a checkout of it.",
        "simulate(function, cpp, values)",
        "PTO_ISA_ROOT=~/pto-isa pypto-lab doctor",
    ),
    Code(
        "E641",
        "no compiler that is new enough",
        "PTO-ISA's headers need clang 15 or g++ 13, or newer. Each compiler that was found is named with its version.",
        "g++ 12",
        "clang++-19",
    ),
    Code(
        "E642",
        "the wrapper does not compile",
        "The compiler's own message, at its line of the wrapped kernel.",
        "C++ of another assembler's version than the headers",
        "ptoas and PTO-ISA of one release",
    ),
    Code(
        "E643",
        "the simulation took too long",
        "The compiler or the kernel was not done in its time and was ended: a loop without an end, a wait for "
        "another core.",
        "while (true) {}",
        "Limits(seconds=120)",
    ),
    Code(
        "E644",
        "the kernel stopped",
        "An assertion of the simulation failed, the process was stopped by a signal, needed more memory than it "
        "may have, or wrote outside a tensor.",
        "y[64] = 1   # of 64",
        "y[63] = 1",
    ),
    Code(
        "E645",
        "values that do not fit the kernel",
        "A kernel takes one value for each parameter: tensors of the stated dtype and shape, numbers for scalars.",
        "simulate(f, cpp, [x.double(), y])",
        "simulate(f, cpp, [x.float(), y])",
    ),
    Code(
        "E646",
        "half of a group",
        "A kernel that passes tiles to one on the other core waits for it; alone it would wait for ever.",
        "simulate(mm_aiv, cpp, values, program=program)",
        "run_build(folder, values)   # the lab's own run has both cores",
    ),
    Code(
        "E647",
        "no real bfloat16",
        "Where a compiler has no bfloat16, the simulation's headers take a half float for it, and results are "
        "wrong without a word. Two values that only bfloat16 keeps are sent through it first.",
        "g++ 12 with a bfloat16 kernel",
        "clang++-19, or g++-13",
    ),
)

_AROUND = (
    Code(
        "E650",
        "a dynamic dimension that no shape gives",
        "The wrapper reads a dimension's value from the shape of a tensor; that is possible for the symbol plus, "
        "minus, times or floor-divided by a constant.",
        "x: pl.Tensor[[M * K, 64], pl.FP32]",
        "x: pl.Tensor[[M, 64], pl.FP32]",
    ),
    Code(
        "E651",
        "a parameter that no argument word carries",
        "Kernels take tensors, scalars and communication contexts of the element types that the device has.",
        "def kernel(p: pl.Ptr): ...",
        "def kernel(x: pl.Tensor[[16, 64], pl.FP32]): ...",
    ),
    Code(
        "E652",
        "a kernel with asynchronous prefetch",
        "Such a kernel takes a workspace argument that the lab's wrapper does not write.",
        "pl.prefetch.async_prefetch(x, ...)",
        "pl.load(x, ...)",
    ),
    Code(
        "E653",
        "the text is of another kernel",
        "The assembler's C++ does not define the function that is to be wrapped.",
        "kernel_wrapper(program.functions['f'], cpp_of_g)",
        "kernel_wrapper(program.functions['f'], cpp_of_f)",
    ),
    Code(
        "E654",
        "split ends of a pipe are missing",
        "The program splits a tile over the lanes and the assembler's text does not say so: without the lane both "
        "lanes would use one half.",
        "C++ assembled from an older `.pto`",
        "assemble the `.pto` of this program",
    ),
    Code(
        "E655",
        "unknown runtime",
        "There are two: `tensormap_and_ringbuffer` (the default) and `host_build_graph`.",
        "kernel_config(program, runtime='ringbuffer')",
        "kernel_config(program, runtime='tensormap_and_ringbuffer')",
    ),
    Code(
        "E656",
        "no orchestration function, or several",
        "A configuration, an orchestration file and `compiled_meta.json` are of one orchestration function.",
        "orchestration(program)   # with two",
        "orchestration(program, function='prefill')",
    ),
    Code(
        "E657",
        "a number of threads that cannot be",
        "`aicpu_thread_num` is a number of threads, or 0 for the runtime's own choice.",
        "kernel_config(program, aicpu_thread_num=-1)",
        "kernel_config(program, aicpu_thread_num=0)",
    ),
    Code(
        "E660",
        "no assembler",
        "`ptoas` is neither below PTOAS_ROOT nor on PATH. Without it the `.pto` is written and run by the lab, and "
        "no C++ is made.",
        "assemble(text)",
        "PTOAS_ROOT=~/ptoas pypto-lab compile kernel.py --out build",
    ),
    Code(
        "E661",
        "an assembler that cannot be used",
        "A `ptoas` was found that does not start, does not answer, or lacks a flag. PyPI's `ptoas` wheel is one: its "
        "libraries are missing.",
        "pip install ptoas",
        "a release of the PTOAS project, PTOAS_ROOT set to its folder",
    ),
    Code(
        "E662",
        "the assembler refuses the text",
        "The assembler's own message, at its line of the `.pto`.",
        "a `.pto` for a newer assembler",
        "the assembler's release that knows these ops",
    ),
    Code(
        "E663",
        "the assembler took too long",
        "It was ended after its time limit. Some versions hang in their insertion of flags.",
        "assemble(text)",
        "assemble(text, time_limit=300)",
    ),
    Code(
        "E664",
        "a wrong request to the assembler",
        "The architecture is `a2a3` or `a5`, the level 2 or 3.",
        "assemble(text, arch='a3')",
        "assemble(text, arch='a2a3')",
    ),
    Code(
        "W660",
        "a remark of the assembler",
        "The assembler wrote C++ and said something about the text.",
        "",
        "",
    ),
    Code(
        "E670",
        "nothing orders two accesses",
        "Two pipes of a core touch the same bytes, one of them writes, and no flag or barrier says which comes first. "
        "Simulators run one op after the other and never show it.",
        "TLOAD(t, x);\nTADD(y, t, t);",
        "TLOAD(t, x);\nset_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);\nwait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);\nTADD(y, "
        "t, t);",
    ),
    Code(
        "E671",
        "a wait for a flag that nothing sets",
        "The core would wait for ever.",
        "wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);",
        "set_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);\nwait_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);",
    ),
    Code(
        "E672",
        "a flag from a pipe to itself",
        "A pipe keeps its own order by a barrier.",
        "set_flag(PIPE_V, PIPE_V, EVENT_ID0);",
        "pipe_barrier(PIPE_V);",
    ),
    Code(
        "W670",
        "a flag is left set",
        "A flag that nobody waits for is still set when the next kernel starts.",
        "set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);",
        "set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);\nwait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);",
    ),
    Code(
        "W671",
        "vector ops that depend on each other without a barrier",
        "Ops of the vector pipe may overlap; one that reads what another writes is separated by a barrier.",
        "TADD(b, a, a);\nTMUL(c, b, b);",
        "TADD(b, a, a);\npipe_barrier(PIPE_V);\nTMUL(c, b, b);",
    ),
)

_FOLDERS = (
    Code(
        "E673",
        "a file of a build that is not whole",
        "The file cannot be read to its end: brackets are left open, JSON stops in the middle, or an entry is missing.",
        "a copy that was interrupted",
        "copy or compile the folder again",
    ),
    Code(
        "E674",
        "a file that the configuration names is not there",
        "`kernel_config.py` lists the C++ of every kernel; a runtime cannot start without one of them.",
        '"source": str(_ROOT_DIR / "kernels" / "aiv" / "sofmax.cpp")',
        '"source": str(_ROOT_DIR / "kernels" / "aiv" / "softmax.cpp")',
    ),
    Code(
        "E675",
        "an entry does not fit its kernel",
        "`kernel_entry` hands a function other arguments, or in another order, than its `.pto` states.",
        "f(out, x, __pypto_spmd_block_idx);",
        "f(x, out, __pypto_spmd_block_idx, __pypto_spmd_block_num);",
    ),
    Code(
        "E676",
        "a submission does not fit the configuration",
        "The orchestration starts a kernel that the configuration has not, on a core it is not built for, or with "
        "another number of tensors.",
        "rt_submit_aiv_task(7, params_t0);",
        "rt_submit_aiv_task(0, params_t0);",
    ),
    Code(
        "E677",
        "`compiled_meta.json` tells of another program",
        "Its parameters are not those of the orchestration or of the last dump: a caller would hand over the wrong "
        "things.",
        '"dtype": "fp32"',
        '"dtype": "fp16"',
    ),
    Code(
        "E678",
        "a loop loses the tile it carries",
        "The body leaves the new tile at another address than the one it reads the old from, and nothing copies it "
        "back: every trip starts from the first tile. Names in the dump look right; addresses do not.",
        "with a carried tile: for (acc,) in pl.while_(init_values=(acc0,)): ...",
        "for i, (acc,) in pl.range(n, init_values=(acc0,)): ...",
    ),
    Code(
        "E679",
        "a configuration that is no plain data",
        "`kernel_config.py` is read and never executed: literals, paths below `_ROOT_DIR` and directions are "
        "understood.",
        '"func_id": next_id()',
        '"func_id": 0',
    ),
    Code(
        "W673",
        "a part of a build is missing",
        "The layout has it and the folder has not; checks that need it are not made.",
        "kernels/ without passes_dump/",
        "the folder as the compiler left it",
    ),
    Code(
        "W678",
        "a tile is written and never read",
        "Its bytes are overwritten, or the kernel ends, before anything reads them: work for nothing, or a result "
        "that got lost.",
        "pto.tadd ins(%acc, %t : ...) outs(%acc_n : ...)   # and %acc is what the next trip reads",
        "pto.tadd ins(%acc, %t : ...) outs(%acc : ...)",
    ),
)

_ORCHESTRATION = (
    Code(
        "E680",
        "no form in an orchestration",
        "An orchestration launches kernels and computes with scalars. Tensors are computed in kernels; scopes must be "
        "outlined and loops have known forms.",
        "y = pl.add(x, x)",
        "with pl.at(level=pl.Level.CORE_GROUP):\n    y = pl.add(x, x)",
    ),
    Code(
        "E681",
        "no kernel to launch",
        "The callee is not in the program, or no core runs it.",
        "self.main(x, y)",
        "self.kernel(x, y)",
    ),
    Code(
        "E682",
        "a value whose scope has ended",
        "C++ scopes follow the program's: a task id, a tensor or a number made in one is gone after it. The body "
        "of a loop and the arms of a branch are scopes of their own.",
        "for i in pl.range(4):\n    out, tid = pl.submit(self.f, x, out)\nout, _ = pl.submit(self.g, out, deps=[tid])",
        "out, tid = pl.submit(self.f, x, out)\nout, _ = pl.submit(self.g, out, deps=[tid])",
    ),
    Code(
        "E683",
        "a result that is no output parameter",
        "A launch gives back the output arguments it was given. Numbers and other tensors cannot come back from a "
        "core.",
        "n = self.count(x)",
        "self.count(x, n_tensor)\nn = pl.tensor.read(n_tensor, [0])",
    ),
    Code(
        "E684",
        "a type that the host or the runtime has not",
        "Orchestrations compute on the host with integers and 32-bit floats; tensors have the runtime's element types.",
        "def main(self, rate: pl.Scalar[pl.FP16], ...)",
        "def main(self, rate: pl.Scalar[pl.FP32], ...)",
    ),
    Code(
        "E685",
        "a predicate of another form",
        "The scheduler compares one element of a tensor of signed integers with an integer literal.",
        "predicate=(a[0] > b[0])",
        "predicate=(flags[0] > 0)",
    ),
    Code(
        "E686",
        "kernels of a group with different arguments",
        "One task has one list of arguments for all cores of a cluster.",
        "self.cube(x, y)\nself.lane(y, x)",
        "self.cube(x, y)\nself.lane(x, y)",
    ),
    Code(
        "E687",
        "a dimension that no tensor shows",
        "A dynamic dimension gets its value from the shape of a tensor in reach.",
        "for i in pl.range(M): ...   # and no tensor has M rows",
        "def main(self, x: pl.Tensor[[M, 64], pl.FP32], ...)",
    ),
    Code(
        "E688",
        "directions that do not fit a call",
        "A call states one direction for each argument, and `scalar` just for those that are no tensors.",
        'attrs={"arg_directions": [pl.adir.input, pl.adir.scalar]}   # of two tensors',
        'attrs={"arg_directions": [pl.adir.input, pl.adir.output_existing]}',
    ),
)

_ENTRIES = (*_TEXTS, *_RUNS, *_SIMULATION, *_AROUND, *_FOLDERS, *_ORCHESTRATION)

CODES: dict[str, Code] = {entry.code: entry for entry in _ENTRIES} | build_codes.CODES
"""All codes below `pypto_lab.pto`, by code."""

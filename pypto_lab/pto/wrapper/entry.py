"""`kernel_entry(__gm__ int64_t* args)`: reads a launch's argument words and calls the function `ptoas` wrote."""

from __future__ import annotations

from pypto_lab.ir import dtypes as d
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.types import HandleType, ScalarType, TensorType
from pypto_lab.ir.visitor import walk
from pypto_lab.pto.wrapper.dimensions import DynamicDimension, dynamic_dimensions
from pypto_lab.pto.wrapper.identity import BLOCK_IDX, BLOCK_NUM, SUBBLOCK_IDX, Identity, identity_of

UNSUPPORTED_PARAMETER = "E651"
UNSUPPORTED_KERNEL = "E652"

PIPE_BUFFER = "__gm_pipe_buffer"
COMM_CONTEXTS = ("pld.CommCtx", "pld.CommCtxType")

C_TYPES: dict[DType, str] = {
    d.BOOL: "bool", d.INDEX: "int64_t",
    d.INT8: "int8_t", d.INT16: "int16_t", d.INT32: "int32_t", d.INT64: "int64_t",
    d.UINT8: "uint8_t", d.UINT16: "uint16_t", d.UINT32: "uint32_t", d.UINT64: "uint64_t",
    d.FP16: "half", d.BF16: "bfloat16_t", d.FP32: "float",
    d.FP8E4M3FN: "float8_e4m3_t", d.FP8E8M0: "float8_e8m0_t", d.FP4: "float4_e2m1x2_t",
}  # fmt: skip
"""The device's C++ name of an element type."""


def kernel_entry(function: n.Function, program: n.Program | None = None) -> str:
    """The entry of a kernel as C++.

    The words of `args` are the tensors in parameter order, then the scalars. The inner call takes tensors, scalars,
    dynamic dimensions, the raw words (deferred completion only), block index and count, lane. `program` is needed for
    kernels in a group: a sibling that reads the block identity cuts this kernel's pipe buffer too.

    Raises:
        LabError: E650 a dynamic dimension that no shape gives, E651 a parameter the device has no type for,
            E652 a kernel with asynchronous prefetch (its workspace argument is not written).
    """
    _check_supported(function)
    identity = identity_of(function, program)
    tensors, scalars = _tensors(function), _scalars(function)
    dimensions = dynamic_dimensions(function)
    parts = [_atomic_reset(), _identity(identity)]
    parts += [_tensor(p, i) for i, p in enumerate(tensors)]
    parts += [_scalar(p, len(tensors) + i) for i, p in enumerate(scalars)]
    parts += [_dimension(dimension) for dimension in dimensions]
    parts += [_slice(p) for p in tensors if p.name == PIPE_BUFFER and identity.group_block]
    parts.append(_call(function, [p.name for p in (*tensors, *scalars)], dimensions, identity))
    body = "\n\n".join(part for part in parts if part)
    signature = 'extern "C" __aicore__ __attribute__((always_inline)) void kernel_entry(__gm__ int64_t* args)'
    return f"{signature}\n{{\n{body}\n}}\n"


def is_scalar_parameter(param: n.Param) -> bool:
    return isinstance(param.type, (ScalarType, HandleType))


def _tensors(function: n.Function) -> list[n.Param]:
    return [p for p in function.params if isinstance(p.type, TensorType)]


def _scalars(function: n.Function) -> list[n.Param]:
    return [p for p in function.params if is_scalar_parameter(p)]


def _check_supported(function: n.Function) -> None:
    errors = [
        Diagnostic(
            UNSUPPORTED_PARAMETER,
            f"{function.name}: parameter `{p.name}` has a type that a kernel's argument words cannot carry",
            p.span or function.span,
            hint="kernels take tensors, scalars and communication contexts",
        )
        for p in function.params
        if not _has_device_type(p)
    ]
    prefetch = next((c for c in walk(function) if isinstance(c, n.OpCall) and c.op.startswith("prefetch.")), None)
    if prefetch is not None:
        errors.append(
            Diagnostic(
                UNSUPPORTED_KERNEL,
                f"{function.name}: `{prefetch.op}` needs a workspace argument that this wrapper does not write",
                prefetch.span or function.span,
                hint="load the data with a plain load, or use PyPTO's own wrapper for this kernel",
            )
        )
    if errors:
        raise LabError(errors)


def _has_device_type(param: n.Param) -> bool:
    match param.type:
        case TensorType(dtype=dtype) | ScalarType(dtype=dtype):
            return dtype in C_TYPES
        case HandleType(name=name):
            return name in COMM_CONTEXTS
    return False


def _atomic_reset() -> str:
    return (
        "#if !defined(__CPU_SIM) && !defined(__COSTMODEL)\n"
        "    // The kernel before may have left atomic stores on.\n"
        "    set_atomic_none();\n"
        "#endif"
    )


def _identity(identity: Identity) -> str:
    lines = []
    if identity.group_block:
        lines += [
            "    // This launch's block, from the dispatch payload",
            f"    int32_t {BLOCK_IDX} = get_block_idx(args);",
            f"    int32_t {BLOCK_NUM} = get_block_num(args);",
        ]
    if identity.needs_lane:
        lines += [
            "    // This core's lane, as the scheduler numbers it (the hardware register can be stale)",
            f"    int32_t {SUBBLOCK_IDX} = get_sub_block_id(args);",
        ]
    return "\n".join(lines)


def _tensor(param: n.Param, word: int) -> str:
    assert isinstance(param.type, TensorType)
    name, pointer = param.name, f"__gm__ {C_TYPES[param.type.dtype]}*"
    return (
        f"    // Tensor {name}\n"
        f"    __gm__ ChipTensor* {name}_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[{word}]);\n"
        f"    {pointer} {name} = reinterpret_cast<{pointer}>({name}_tensor->buffer.addr) + {name}_tensor->start_offset;"
    )


def _scalar(param: n.Param, word: int) -> str:
    name = param.name
    if isinstance(param.type, HandleType):
        pointer = "__gm__ int64_t*"
        return f"    // Context {name}\n    {pointer} {name} = reinterpret_cast<{pointer}>(args[{word}]);"
    assert isinstance(param.type, ScalarType)
    c_type = C_TYPES[param.type.dtype]
    return (
        f"    // Scalar {name}\n"
        f"    union {{ uint64_t u64; {c_type} val; }} {name}_conv;\n"
        f"    {name}_conv.u64 = args[{word}];\n"
        f"    {c_type} {name} = {name}_conv.val;"
    )


def _dimension(dimension: DynamicDimension) -> str:
    name = dimension.symbol.name
    return f"    // Dynamic dimension {name}\n    int64_t {name} = {dimension.value};"


def _slice(param: n.Param) -> str:
    name = param.name
    return (
        f"    // Each block has its own share of {name}\n"
        f"    int64_t {name}_share = static_cast<int64_t>({name}_tensor->shapes[0]) / {BLOCK_NUM};\n"
        f"    {name} += static_cast<int64_t>({BLOCK_IDX}) * {name}_share;"
    )


def _call(function: n.Function, values: list[str], dimensions: tuple[DynamicDimension, ...], identity: Identity) -> str:
    deferred = any(isinstance(c, n.OpCall) and c.op == "pld.system.defer_wait" for c in walk(function))
    raw = ["args"] if deferred else []
    arguments = [*values, *(x.symbol.name for x in dimensions), *raw, *identity.arguments]
    return f"    // The function ptoas wrote\n    {function.name}({', '.join(arguments)});"

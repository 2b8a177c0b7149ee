"""The closed sets of the IR (`reference/language.md` 1.4); member names are the printed names."""

from __future__ import annotations

from enum import Enum, IntEnum


class FunctionType(Enum):
    Opaque = 0
    Orchestration = 1
    InCore = 2
    AIC = 3
    AIV = 4
    Group = 5
    Spmd = 6
    Inline = 7
    Graph = 8


class Direction(Enum):
    In = "In"
    Out = "Out"
    InOut = "InOut"


class ForKind(Enum):
    """Loop flavours; the value is the `pl.` name that writes it."""

    Sequential = "range"
    Parallel = "parallel"
    Unroll = "unroll"
    Pipeline = "pipeline"


class SplitMode(IntEnum):
    """Lane split. UP_DOWN_ODD and LEFT_RIGHT_ODD exist only as the op keyword `split=` (cube to vector)."""

    NONE = 0
    UP_DOWN = 1
    LEFT_RIGHT = 2
    UP_DOWN_ODD = 3
    LEFT_RIGHT_ODD = 4


class MemorySpace(Enum):
    DDR = 0
    Vec = 1
    Mat = 2
    Left = 3
    Right = 4
    Acc = 5
    Bias = 6
    ScalarLocal = 7
    LeftScale = 8
    RightScale = 9


CUBE_SPACES = frozenset(
    {
        MemorySpace.Mat, MemorySpace.Left, MemorySpace.Right, MemorySpace.Acc,
        MemorySpace.Bias, MemorySpace.LeftScale, MemorySpace.RightScale,
    }
)  # fmt: skip


class TensorLayout(Enum):
    ND = "ND"
    DN = "DN"
    NZ = "NZ"
    MX_A_ZZ = "MX_A_ZZ"
    MX_B_NN = "MX_B_NN"


class TileLayout(Enum):
    none_box = 0
    row_major = 1
    col_major = 2


class PadValue(Enum):
    null = 0
    zero = 1
    max = 2
    min = 3


class CompactMode(Enum):
    null = 0
    normal = 1


class Level(Enum):
    AIV = "AIV"
    AIC = "AIC"
    CORE_GROUP = "CORE_GROUP"
    CHIP_DIE = "CHIP_DIE"
    CHIP = "CHIP"
    HOST = "HOST"
    CLUSTER_0 = "CLUSTER_0"
    CLUSTER_1 = "CLUSTER_1"
    CLUSTER_2 = "CLUSTER_2"
    GLOBAL = "GLOBAL"


LEVEL_ALIASES = {
    "L2CACHE": "CHIP_DIE", "PROCESSOR": "CHIP", "UMA": "CHIP", "NODE": "HOST",
    "POD": "CLUSTER_0", "CLOS1": "CLUSTER_1", "CLOS2": "CLUSTER_2",
}  # fmt: skip


class Role(Enum):
    Orchestrator = "Orchestrator"
    SubWorker = "SubWorker"


class ArgDirection(Enum):
    """How a call uses an argument; the value is the printed name `pl.adir.<value>`."""

    Input = "input"
    Output = "output"
    InOut = "inout"
    OutputExisting = "output_existing"
    NoDep = "no_dep"
    Scalar = "scalar"


class ScopeMode(Enum):
    AUTO = "AUTO"
    MANUAL = "MANUAL"


class AtomicType(IntEnum):
    None_ = 0
    Add = 1


class PipeType(Enum):
    MTE1 = "MTE1"
    MTE2 = "MTE2"
    MTE3 = "MTE3"
    M = "M"
    V = "V"
    S = "S"
    FIX = "FIX"
    ALL = "ALL"


class MaskPattern(IntEnum):
    P0101 = 1
    P1010 = 2
    P0001 = 3
    P0010 = 4
    P0100 = 5
    P1000 = 6
    P1111 = 7


class MgatherCoalesce(IntEnum):
    row = 0
    elem = 1


class NotifyOp(IntEnum):
    AtomicAdd = 0
    Set = 1


class WaitCmp(IntEnum):
    Eq = 0
    Ge = 1


class ReduceOp(IntEnum):
    Sum = 0
    Max = 1
    Min = 2
    Prod = 3


CAST_MODES = ("none", "rint", "round", "floor", "ceil", "trunc", "odd")
"""Rounding modes of a cast by code 0..6: half to even is rint, half away from zero is round."""

CMP_TYPES = ("eq", "ne", "lt", "le", "gt", "ge")
"""Comparisons by `cmp_type` code 0..5."""

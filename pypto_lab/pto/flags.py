"""A static check of `set_flag`, `wait_flag` and `pipe_barrier` in generated C++: which accesses nothing orders.

The simulators run one op after the other, so a missing flag never shows there; on the device the pipes of a core run
side by side. Bodies of loops are walked a few times, both arms of a branch once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pypto_lab.ir.diagnostics import Diagnostic, Label, Severity
from pypto_lab.ir.span import Span
from pypto_lab.pto.wrapper import cpp
from pypto_lab.pto.wrapper.statements import Branch, Loop, Opaque, Plain, Statement, read_body
from pypto_lab.pto.wrapper.values import integer

UNORDERED = "E670"
WAIT_WITHOUT_SET = "E671"
FLAG_TO_ITSELF = "E672"
SET_WITHOUT_WAIT = "W670"
SAME_PIPE = "W671"

PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX")
_CORES = (
    frozenset({"__DAV_VEC__", "__DAV_C220_VEC__", "__CCE_AICORE__"}),
    frozenset({"__DAV_CUBE__", "__DAV_C220_CUBE__", "__CCE_AICORE__"}),
)
_ELEMENT_BYTES = {
    "bool": 1, "int8_t": 1, "uint8_t": 1, "int16_t": 2, "uint16_t": 2, "int32_t": 4, "uint32_t": 4, "int64_t": 8,
    "uint64_t": 8, "half": 2, "bfloat16_t": 2, "float": 4, "float8_e4m3_t": 1, "float8_e5m2_t": 1, "float8_e8m0_t": 1,
    "float4_e2m1x2_t": 1, "hifloat8_t": 1, "int": 4, "unsigned": 4,
}  # fmt: skip
_NOT_MODELLED = {"MGATHER", "MSCATTER", "TPUT", "TGET", "TNOTIFY", "TWAIT", "TTEST", "TPREFETCH", "TSYNC", "TBROADCAST"}
_NO_ACCESS = {"TFREE", "TALLOC", "TPRINT", "TSETFMATRIX"}
_VIEWS = {"TRESHAPE", "TSUBVIEW", "TSUBSET"}
_MOVES = {"TMOV", "TMOV_FP", "TEXTRACT", "TEXTRACT_FP", "TINSERT", "TINSERT_FP"}
_SCRATCH_FROM = {
    **dict.fromkeys(("TROWSUM", "TROWMAX", "TROWMIN", "TROWPROD", "TROWARGMAX", "TROWARGMIN"), 3),
    **dict.fromkeys(("TCOLSUM", "TCOLARGMAX", "TCOLARGMIN", "TTRANS", "TRSQRT", "TNOT", "TCVT", "TXORS", "TREMS"), 3),
    **dict.fromkeys(("TXOR", "TREM", "TPRELU", "TFMOD", "TSELS", "TGATHER"), 4),
    "TSEL": 5,
    "TCI": 2,
}
"""Ops whose last tile is scratch when they have this many tiles."""

_POP_PIPES = ("S", "MTE2")
"""Assemblers order a popped tile against the scalar unit or against the loads; either will do."""
_DEEP_TRIPS, _TRIPS, _DEEP = 2, 3, 2
_LARGEST_WALK = 20_000


@dataclass(frozen=True, slots=True)
class FlagReport:
    """What the check saw. `not_checked` lists, in words, ops and addresses that it left out."""

    findings: tuple[Diagnostic, ...]
    operations: int
    flags: int
    not_checked: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """No errors; with `not_checked` this speaks for the rest only."""
        return not any(d.severity is Severity.ERROR for d in self.findings)

    def __str__(self) -> str:
        head = f"{self.operations} operations, {self.flags} flags and barriers, {len(self.findings)} findings"
        parts = [
            head,
            *(d.render(self.sources) for d in self.findings),
            *(f"not checked: {t}" for t in self.not_checked),
        ]
        return "\n".join(parts)


def check_flags(source: str | Path, *, file: str | None = None, within_pipes: bool = False) -> FlagReport:
    """Looks for tile and global accesses of two pipes that meet in memory and that nothing orders.

    A finding names the later access and labels the earlier one: a read of what is still being written (RAW), a write
    over what is still being read (WAR) or written (WAW). Also found: a wait whose flag nothing sets (the core would
    hang), a flag left set at the end, a flag from a pipe to itself. `within_pipes` adds accesses of the vector pipe
    that no `pipe_barrier(PIPE_V)` separates, as warnings.

    Args:
        source: C++ text, or the path of a `.cpp`.
        file: the name in spans; the path's own by default.
    """
    if isinstance(source, Path):
        file, source = file or str(source), source.read_text(encoding="utf-8")
    file = file or "<kernel.cpp>"
    findings: dict[tuple[object, ...], Diagnostic] = {}
    notes: dict[str, None] = {}
    operations: dict[tuple[str, int], None] = {}
    flags: dict[int, None] = {}
    for core in _CORES:
        words = cpp.tokens(cpp.active(source, core))
        kernels = cpp.functions(words)
        for kernel in kernels:
            if kernel.name == "ptoas_auto_sync_tail":
                continue
            walk = _Walk(words, kernel, {k.name for k in kernels}, file, within_pipes)
            walk.run()
            findings.update((k, v) for k, v in walk.findings.items() if k not in findings)
            notes |= walk.notes
            operations |= walk.operations
            flags |= walk.flag_lines
    ordered = sorted(findings.values(), key=lambda d: (d.span.line if d.span else 0, d.code))
    return FlagReport(tuple(ordered), len(operations), len(flags), tuple(notes), {file: source})


@dataclass(slots=True)
class _Tile:
    """A tile variable: its memory, its size, and where it lies (None when the address is not a known number)."""

    name: str
    space: str
    size: int
    address: int | None = None
    assigned: bool = False


@dataclass(frozen=True, slots=True)
class _Region:
    """Bytes `low` to `high` of a memory, or of a buffer that only its own name reaches."""

    memory: str
    low: int
    high: int
    shown: str

    def meets(self, other: _Region) -> bool:
        return self.memory == other.memory and self.low < other.high and other.low < self.high


@dataclass(frozen=True, slots=True)
class _Access:
    bit: int
    pipe: str
    op: str
    token: cpp.Token
    region: _Region
    writes: bool
    trip: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Set:
    """A flag on its way: what is complete when it arrives."""

    complete: int
    token: cpp.Token


@dataclass(slots=True)
class _State:
    """What is known at a point. `complete[p]`: the ops (as bits) known to be over before anything pipe p starts now;
    `issued[p]`: all ops given to p."""

    complete: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PIPES, 0))
    issued: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PIPES, 0))
    pending: dict[tuple[str, str, str], tuple[_Set, ...]] = field(default_factory=dict)
    unsure: set[tuple[str, str, str]] = field(default_factory=set)
    ended: bool = False

    def copy(self) -> _State:
        return _State(dict(self.complete), dict(self.issued), dict(self.pending), set(self.unsure), self.ended)

    def all_issued(self) -> int:
        bits = 0
        for mask in self.issued.values():
            bits |= mask
        return bits


def _joined(a: _State, b: _State) -> _State:
    """The state after a branch: an op of one arm only cannot meet the other arm, so it counts as over there."""
    if a.ended or b.ended:
        return b if a.ended else a
    only_a, only_b = a.all_issued() & ~b.all_issued(), b.all_issued() & ~a.all_issued()
    joined = _State(unsure=a.unsure | b.unsure)
    for pipe in PIPES:
        joined.complete[pipe] = (a.complete[pipe] | only_b) & (b.complete[pipe] | only_a)
        joined.issued[pipe] = a.issued[pipe] | b.issued[pipe]
    for key in a.pending.keys() | b.pending.keys():
        left, right = a.pending.get(key, ()), b.pending.get(key, ())
        if len(left) == len(right):
            pairs = zip(left, right, strict=True)
            sets = tuple(_Set((x.complete | only_b) & (y.complete | only_a), x.token) for x, y in pairs)
        else:
            sets = max(left, right, key=len)
            joined.unsure.add(key)
        joined.pending[key] = sets
    return joined


class _Walk:
    """One function of one core."""

    def __init__(
        self, words: Sequence[cpp.Token], kernel: cpp.Function, others: set[str], file: str, within_pipes: bool
    ) -> None:
        self.kernel, self.file, self.within_pipes = kernel, file, within_pipes
        self.others = others - {kernel.name}
        self.body = read_body(words[slice(*kernel.body)])
        parameters = cpp.split_commas(words, *kernel.parameters)
        names = (words[end - 1].text for start, end in parameters if any(w.text == "*" for w in words[start:end]))
        self.pointers: dict[str, tuple[str, int | None]] = {name: (name, 0) for name in names}
        self.values: dict[str, int | None] = {}
        self.tiles: dict[str, _Tile] = {}
        self.globals: dict[str, _Region | None] = {}
        self.aliases: dict[str, tuple[cpp.Token, ...]] = {}
        self.accesses: list[_Access] = []
        self.state = _State()
        self.trip: list[int] = []
        self.count = self.walked = self.arms = 0
        self.findings: dict[tuple[object, ...], Diagnostic] = {}
        self.notes: dict[str, None] = {}
        self.operations: dict[tuple[str, int], None] = {}
        self.flag_lines: dict[int, None] = {}

    def run(self) -> None:
        self.block(self.body)
        if self.walked > _LARGEST_WALK:
            return
        for key, sets in self.state.pending.items():
            for left in sets if key not in self.state.unsure else ():
                message = f"{_shown_flag(key)} is set and never waited for: the next kernel finds it set"
                self.find(SET_WITHOUT_WAIT, message, left.token, severity=Severity.WARNING)

    # control flow

    def block(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            if self.state.ended:
                return
            self.walked += 1
            if self.walked > _LARGEST_WALK:
                self.note(f"{self.kernel.name}: more than {_LARGEST_WALK} steps; the rest was not walked")
                self.state.ended = True
                return
            match statement:
                case Plain():
                    self.plain(statement.words)
                case Branch():
                    self.branch(statement)
                case Loop():
                    self.loop(statement)
                case Opaque():
                    self.note(f"line {statement.line}: `{statement.word}` is not followed")

    def branch(self, branch: Branch) -> None:
        condition = self.value(branch.condition)
        if condition is not None:
            self.block(branch.then if condition else branch.other)
            return
        before = self.state.copy()
        values = dict(self.values)
        addresses = {name: tile.address for name, tile in self.tiles.items()}
        self.arms += 1
        self.block(branch.then)
        then, then_values = self.state, dict(self.values)
        then_addresses = {name: tile.address for name, tile in self.tiles.items()}
        self.state, self.values = before, values
        then_only = then.all_issued() & ~before.all_issued()
        for pipe in PIPES:  # the arms exclude each other
            self.state.complete[pipe] |= then_only
        for name, address in addresses.items():
            self.tiles[name].address = address
        self.block(branch.other)
        self.arms -= 1
        self.state = _joined(then, self.state)
        for name in then_values.keys() | self.values.keys():
            if then_values.get(name) != self.values.get(name):
                self.values[name] = None
        for name, address in then_addresses.items():
            if name in addresses and self.tiles[name].address != address:
                self.tiles[name].address = None

    def loop(self, loop: Loop) -> None:
        if loop.start:
            self.plain(loop.start)
        most = _TRIPS if len(self.trip) < _DEEP else _DEEP_TRIPS
        self.trip.append(0)
        for trip in range(most):
            self.trip[-1] = trip
            if not (loop.body_first and trip == 0) and self.value(loop.condition) == 0:
                break
            self.block(loop.body)
            if self.state.ended:
                break
            if loop.step:
                self.plain(loop.step)
        self.trip.pop()

    # statements

    def plain(self, words: tuple[cpp.Token, ...]) -> None:
        first = words[0].text
        if first == "return":
            self.state.ended = True
        elif first == "using":
            self.alias(words)
        elif first in ("break", "continue"):
            self.note(f"line {words[0].line}: `{first}` is not followed")
        elif first == "Tile" or self.alias_of(first) == "Tile":
            self.declare_tile(words)
        elif first == "GlobalTensor" or self.alias_of(first) == "GlobalTensor":
            self.declare_global(words)
        elif not self.call(words):
            self.element_accesses(words)
            self.assign(words)

    def alias(self, words: tuple[cpp.Token, ...]) -> None:
        """`using Name = Tile<...>` or `GlobalTensor<...>`, with or without the namespace."""
        if len(words) > 3 and words[2].text == "=":
            named = words[5:] if [w.text for w in words[3:5]] == ["pto", "::"] else words[3:]
            self.aliases[words[1].text] = named

    def alias_of(self, name: str) -> str | None:
        return self.aliases[name][0].text if self.aliases.get(name) else None

    def declare_tile(self, words: tuple[cpp.Token, ...]) -> None:
        template = self.aliases.get(words[0].text, words)
        close = cpp.template_end(template, 1) if len(template) > 1 else None
        at = (close + 1 if close is not None else 1) if words[0].text == "Tile" else 1
        if close is None or at >= len(words) or words[at].kind != "name":
            return
        name = words[at].text
        arguments = [template[slice(*part)] for part in cpp.split_commas(template, 2, close)]
        rows, cols = (self.value(part) for part in arguments[2:4]) if len(arguments) >= 4 else (None, None)
        size = _ELEMENT_BYTES.get(arguments[1][-1].text) if len(arguments) >= 4 else None
        if rows is None or cols is None or size is None:
            self.note(f"line {words[0].line}: the size of tile `{name}` is not known")
            return
        self.tiles[name] = _Tile(name, arguments[0][-1].text, rows * cols * size)
        self.values.pop(name, None)

    def declare_global(self, words: tuple[cpp.Token, ...]) -> None:
        """`GlobalTensor<...> name = GlobalTensor<...>(pointer + offset, ...)`, or `name(pointer + offset, ...)`."""
        at = 1
        if words[0].text == "GlobalTensor":
            close = cpp.template_end(words, 1)
            at = len(words) if close is None else close + 1
        if at >= len(words):
            return
        opening = next((i for i in range(len(words) - 1, at, -1) if words[i].text == "(" and _ends(words, i)), None)
        self.globals[words[at].text] = None if opening is None else self.global_region(words, opening)

    def global_region(self, words: tuple[cpp.Token, ...], opening: int) -> _Region | None:
        parts = cpp.split_commas(words, opening + 1, len(words) - 1)
        base, offset = (self.pointed(words[slice(*parts[0])]) if parts else None) or ("", None)
        if offset is None:
            return None
        return _Region(f"global {base}", offset, offset + 1, f"`{base}` from element {offset} on")

    def pointed(self, words: Sequence[cpp.Token]) -> tuple[str, int | None] | None:
        """(parameter, offset in elements) of a pointer expression, or None when it holds no pointer known here."""
        name = next((w.text for w in words if w.text in self.pointers), None)
        if name is None:
            return None
        base, start = self.pointers[name]
        return base, None if start is None else self.value(words, {**self.values, name: start})

    def assign(self, words: tuple[cpp.Token, ...]) -> None:
        texts = [w.text for w in words]
        for i, text in enumerate(texts):
            if text == "=" and i > 0 and words[i - 1].kind == "name":
                self.values[texts[i - 1]] = self.value(words[i + 1 :])
                place = self.pointed(words[i + 1 :]) if "*" in texts[:i] else None
                if place is not None:
                    self.pointers[texts[i - 1]] = place
                return
            if text in ("+=", "-=") and i == 1:
                old, by = self.values.get(texts[0]), self.value(words[2:])
                self.values[texts[0]] = None if old is None or by is None else old + (by if text == "+=" else -by)
                return
        if len(words) == 2 and {"++", "--"} & set(texts):
            name = next(t for t in texts if t not in ("++", "--"))
            old = self.values.get(name)
            self.values[name] = None if old is None else old + (1 if "++" in texts else -1)

    def value(self, words: Sequence[cpp.Token], known: Mapping[str, int | None] | None = None) -> int | None:
        if known is None:
            known = {**self.values, **{t.name: t.address for t in self.tiles.values()}}
        return integer(words, known)

    # calls

    def call(self, words: tuple[cpp.Token, ...]) -> bool:
        """Whether the statement is a call this check knows, or one it has to mention."""
        at = 2 if len(words) > 2 and words[0].text == "pto" and words[1].text == "::" else 0
        call = cpp.call_at(words, at, len(words))
        if call is None or call.close != len(words) - 1:
            return False
        arguments = [words[slice(*part)] for part in call.arguments]
        token = words[at]
        match call.name:
            case "set_flag" | "wait_flag" if len(arguments) == 3:
                self.flag(call.name == "set_flag", arguments, token)
            case "pipe_barrier" if len(arguments) == 1:
                self.barrier(_pipe_name(arguments[0]), token)
            case "ptoas_auto_sync_tail":
                self.tail(arguments, token)
            case "TASSIGN" if len(arguments) == 2:
                self.place(arguments)
            case _ if call.name in _VIEWS and len(arguments) >= 2:
                self.view(arguments)
            case _ if call.name in self.others:
                self.note(f"line {token.line}: the call of `{call.name}` is not followed")
            case _ if call.name in _NO_ACCESS:
                pass
            case _ if call.name in _NOT_MODELLED:
                self.note(f"line {token.line}: `{call.name}` is not modelled")
            case _ if call.name.startswith("T") and call.name.isupper():
                self.tile_op(call.name, arguments, token)
            case _:
                return False
        return True

    def place(self, arguments: list[tuple[cpp.Token, ...]]) -> None:
        tile = self.tiles.get(arguments[0][-1].text)
        if tile is None:
            return
        tile.assigned, tile.address = True, self.value(arguments[1])
        if tile.address is None:
            self.note(f"line {arguments[0][0].line}: the address of tile `{tile.name}` is not a known number")

    def view(self, arguments: list[tuple[cpp.Token, ...]]) -> None:
        """A view lies where its source lies; its own size is kept within the source's."""
        target, source = self.tiles.get(arguments[0][-1].text), self.tiles.get(arguments[1][0].text)
        if target is None or source is None:
            return
        if source.assigned:
            target.assigned, target.address, target.size = True, source.address, source.size
        else:
            self.tiles[target.name] = source

    def tail(self, arguments: list[tuple[cpp.Token, ...]], token: cpp.Token) -> None:
        """The assembler's closing helper: a barrier over all pipes, or a flag from the stores to the scalar unit."""
        if any("Mte3ToS" in w.text for part in arguments for w in part):
            self.send(("MTE3", "S", "tail"), token)
            self.receive(("MTE3", "S", "tail"), token)
        else:
            self.barrier("ALL", token)

    # order

    def flag(self, is_set: bool, arguments: list[tuple[cpp.Token, ...]], token: cpp.Token) -> None:
        source, target = _pipe_name(arguments[0]), _pipe_name(arguments[1])
        if source not in PIPES or target not in PIPES:
            self.note(f"line {token.line}: a flag between pipes `{source}` and `{target}` is not modelled")
            return
        self.flag_lines[token.line] = None
        if source == target and is_set:
            self.find(FLAG_TO_ITSELF, f"a flag from {source} to itself orders nothing; use pipe_barrier", token)
        number = self.value(arguments[2])
        event = "".join(w.text for w in arguments[2]) if number is None else f"EVENT_ID{number}"
        if is_set:
            self.send((source, target, event), token)
        else:
            self.receive((source, target, event), token)

    def send(self, key: tuple[str, str, str], token: cpp.Token) -> None:
        complete = self.state.complete[key[0]] | self.state.issued[key[0]]
        self.state.pending[key] = (*self.state.pending.get(key, ()), _Set(complete, token))

    def receive(self, key: tuple[str, str, str], token: cpp.Token) -> None:
        sets = self.state.pending.get(key, ())
        if not sets:
            if key not in self.state.unsure:
                self.find(
                    WAIT_WITHOUT_SET, f"nothing sets {_shown_flag(key)} before this wait: the core would hang", token
                )
            return
        self.state.pending[key] = sets[1:]
        # the scalar unit issues every op, so what it has waited for is over for all pipes
        for pipe in PIPES if key[1] == "S" else (key[1],):
            self.state.complete[pipe] |= sets[0].complete

    def barrier(self, pipe: str, token: cpp.Token) -> None:
        self.flag_lines[token.line] = None
        if pipe == "ALL":
            everything = self.state.all_issued()
            self.state.complete = dict.fromkeys(PIPES, everything)
        elif pipe in PIPES:
            self.state.complete[pipe] |= self.state.issued[pipe]

    # accesses

    def tile_op(self, name: str, arguments: list[tuple[cpp.Token, ...]], token: cpp.Token) -> None:
        tiles = [self.tiles[part[-1].text] for part in arguments if part and part[-1].text in self.tiles]
        tensors = [part[-1].text for part in arguments if part and part[-1].text in self.globals]
        pipe = _pipe_of(name, tiles)
        if pipe is None:
            self.note(f"line {token.line}: `{name}` has no tile this check knows")
            return
        stores = name in ("TSTORE", "TSTORE_FP")
        reads_only = stores or name == "TPUSH"
        scratch = len(tiles) - 1 if len(tiles) >= _SCRATCH_FROM.get(name, 99) else None
        touched = [(self.tile_region(t), not reads_only and i in (0, scratch)) for i, t in enumerate(tiles)]
        touched += [(self.globals[tensor], stores) for tensor in tensors]
        self.access(name, pipe, token, [(region, writes) for region, writes in touched if region is not None])

    def element_accesses(self, words: tuple[cpp.Token, ...]) -> None:
        """`tile.GetValue(i)` and `tile.SetValue(i, x)` anywhere in a statement: the scalar unit does them."""
        for i, word in enumerate(words[2:], 2):
            tile = self.tiles.get(words[i - 2].text)
            if word.text in ("GetValue", "SetValue") and words[i - 1].text == "." and tile is not None:
                region = self.tile_region(tile)
                if region is not None:
                    self.access(word.text, "S", word, [(region, word.text == "SetValue")])

    def tile_region(self, tile: _Tile) -> _Region | None:
        if not tile.assigned:  # a FIFO slot, another one each time: trips of a loop do not meet in it
            return _Region(f"buffer {tile.name} {self.trip}", 0, tile.size, f"`{tile.name}`")
        if tile.address is None:
            return None
        end = tile.address + tile.size
        return _Region(tile.space, tile.address, end, f"`{tile.name}` ({tile.space} {tile.address}..{end})")

    def access(self, op: str, pipe: str, token: cpp.Token, touched: list[tuple[_Region, bool]]) -> None:
        self.operations[op, token.start] = None
        pipes = _POP_PIPES if op == "TPOP" else (pipe,)
        over = 0
        for one in pipes:
            over |= self.state.complete[one]
        for region, writes in touched:
            for earlier in self.accesses:
                if earlier.bit & over or not (writes or earlier.writes) or not region.meets(earlier.region):
                    continue
                self.compare(earlier, _Access(0, pipe, op, token, region, writes, tuple(self.trip)))
        bit = 1 << self.count
        self.count += 1
        self.accesses += [_Access(bit, pipe, op, token, r, w, tuple(self.trip)) for r, w in touched]
        for one in pipes:
            self.state.issued[one] |= bit
        if pipes == ("S",):  # it issues what follows, so its own work is over by then
            for other in PIPES:
                self.state.complete[other] |= bit
        self.forget()

    def forget(self) -> None:
        """Drops accesses that are over for every pipe: nothing later can meet them. In one arm of a branch they stay,
        the other arm may know less."""
        if self.arms == 0 and len(self.accesses) > 128:
            over = -1
            for mask in self.state.complete.values():
                over &= mask
            self.accesses = [a for a in self.accesses if not a.bit & over]

    def compare(self, earlier: _Access, later: _Access) -> None:
        if earlier.pipe == later.pipe and not (self.within_pipes and later.pipe == "V"):
            return
        kind = ("WAW" if earlier.writes else "WAR") if later.writes else "RAW"
        what = {"RAW": "reads what is still being written", "WAR": "writes over what is still being read"}
        doing = what.get(kind, "writes over what is still being written")
        around = " in an earlier trip of the loop" if earlier.trip[: len(later.trip)] != later.trip else ""
        if earlier.pipe == later.pipe:
            message = f"{kind}: {later.op} {doing}: no pipe_barrier(PIPE_{later.pipe}) since {earlier.op}{around}"
            code, severity, hint = SAME_PIPE, Severity.WARNING, f"pipe_barrier(PIPE_{later.pipe})"
        else:
            message = (
                f"{kind}: {later.op} on {later.pipe} {doing}: nothing orders it after {earlier.op} on {earlier.pipe}"
                f"{around}, both at {later.region.shown}"
            )
            code, severity = UNORDERED, Severity.ERROR
            hint = f"set_flag and wait_flag from PIPE_{earlier.pipe} to PIPE_{later.pipe} between them"
        label = Label(self.span(earlier.token), f"{earlier.op} on {earlier.pipe}: {earlier.region.shown}")
        self.find(code, message, later.token, severity=severity, hint=hint, label=label, kind=kind)

    # findings

    def find(
        self,
        code: str,
        message: str,
        token: cpp.Token,
        *,
        severity: Severity = Severity.ERROR,
        hint: str | None = None,
        label: Label | None = None,
        kind: str = "",
    ) -> None:
        labels = (label,) if label is not None else ()
        key = (code, kind, token.start, label.span if label is not None else None)
        message = f"{self.kernel.name}: {message}"
        self.findings.setdefault(key, Diagnostic(code, message, self.span(token), severity, labels, hint))

    def span(self, token: cpp.Token) -> Span:
        return Span(self.file, token.line, token.column, token.line, token.column + len(token.text))

    def note(self, text: str) -> None:
        self.notes[text] = None


def _ends(words: Sequence[cpp.Token], opening: int) -> bool:
    """Whether the bracket at `opening` closes with the last word."""
    return cpp.closing(words, opening) == len(words) - 1


def _pipe_name(words: Sequence[cpp.Token]) -> str:
    return words[-1].text.removeprefix("PIPE_") if words else ""


def _shown_flag(key: tuple[str, str, str]) -> str:
    return f"the flag {key[0]} to {key[1]} ({key[2]})"


def _pipe_of(name: str, tiles: Sequence[_Tile]) -> str | None:
    """The pipe that runs an op, from its name and the memories of its tiles."""
    if not tiles:
        return None
    spaces = [tile.space for tile in tiles]
    match name:
        case "TLOAD":
            return "MTE2"
        case "TSTORE" | "TSTORE_FP" | "TPUSH":
            return "FIX" if spaces[0] == "Acc" else "MTE3"
        case "TPOP":
            return _POP_PIPES[0]
        case "TCI" if len(tiles) == 1:
            return "S"
    if name.startswith(("TMATMUL", "TGEMV")):
        return "M"
    if name in _MOVES and len(spaces) >= 2:
        return _moving_pipe(spaces[0], spaces[1])
    return "V" if spaces[0] == "Vec" else None


def _moving_pipe(target: str, source: str) -> str:
    if source == "Acc":
        return "FIX"
    if source == "Mat":
        return "FIX" if target in ("Scaling", "Fb") else "MTE1"
    return "V" if target == "Vec" else "MTE3"

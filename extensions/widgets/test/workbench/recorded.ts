// A small recording written by hand: a host calls two lanes, one pushes to the other, which waits first and stores last.
import type { EventRow, StatementRow, Timeline, ValueRow, WriteRow } from "../../src/workbench/payload";

const statement = (fn: number, kind: number, line: number, text: string, more: Partial<Record<"targets" | "reads", string[]>> & { op?: string; updates?: string } = {}): StatementRow => [
  fn, kind, line + 100, line + 100, text, more.targets ?? [], more.reads ?? [], 0, line, "kernel.py", more.op ?? null, more.updates ?? null, "",
];

/** Lanes: 0 host, 1 AIC, 2 AIV0. Steps 1..10; storage 0 is the argument `out`, storage 1 the tile that is pushed. */
export function timeline(): Timeline {
  const values: ValueRow[] = [
    ["t", "float32", [4, 2], null, 0, [2, 1], 0, 4],
    ["t", "float32", [2, 2], [1, 2], 1, [2, 1], 0, 4],
    ["s", "7", "int"],
    ["l", [1, 2]],
    ["t", "float32", [2, 2], null, -1, [], 0, 0],
  ];
  const statements: StatementRow[] = [
    statement(0, 1, 1, "def entry(out):"),
    statement(1, 1, 3, "def cube(out):"),
    statement(1, 0, 4, "acc = matmul()", { targets: ["acc"], op: "tile.matmul" }),
    statement(1, 0, 5, "push(acc)", { reads: ["acc"], op: "tile.tpush_to_aiv" }),
    statement(2, 1, 7, "def vector(out):"),
    statement(2, 2, 8, "for i in range(2):", { targets: ["i"] }),
    statement(2, 0, 9, "got = pop()", { targets: ["got"], op: "tile.tpop_from_aic" }),
    statement(2, 0, 10, "store(got, out)", { reads: ["got", "out"], op: "tile.store" }),
    statement(0, 4, 12, "return out", { reads: ["out"] }),
  ];
  const events: EventRow[] = [
    [2, 5, 0, "", null, null, null, "group", "", null],
    [4, 3, 2, "C2V[0]#0", null, null, null, "pop", "empty", null],
    [6, 0, 1, "C2V[0]#0", 0, 1, 2, "push", "", null],
    [7, 4, 2, "C2V[0]#0", null, null, null, "resumed", "", null],
    [7, 1, 2, "C2V[0]#0", 0, 1, null, "pop", "", null],
    [8, 2, 2, "C2V[0]#0", 0, null, null, "free", "", null],
  ];
  const writes: WriteRow[] = [
    [8, 0, 16, [2, 2], [8, 4], 4],
    [9, 0, 0, [1, 2], [8, 4], 4],
  ];
  return {
    version: 1,
    facts: { entry: "entry", seed: 0, status: "finished", error: "", policy: "lane-first", branch: "", notes: [], inputs: { out: 0 }, outputs: { out: 0 } },
    lanes: ["host", "AIC", "AIV0"],
    used: [0, 1, 2],
    files: ["kernel.py"],
    functions: [["entry", 101], ["cube", 103], ["vector", 107]],
    statements,
    frames: [[0, 0, -1, 1, 10], [1, 1, 0, 2, 6], [2, 2, 0, 3, 9]],
    steps: {
      kind: [1, 1, 1, 5, 0, 0, 0, 0, 0, 4],
      statement: [0, 1, 4, 6, 2, 3, 6, 7, 7, 8],
      frame: [0, 1, 2, 2, 1, 1, 2, 2, 2, 0],
      block: Array<number>(10).fill(-1),
      task: Array<number>(10).fill(-1),
      turn: [0, 0, 0, 1, 0, 0, 1, 1, 2, 0],
      turns: [[], [0], [1]],
    },
    names: ["out", "acc", "got", "condition", "pair", "late"],
    bindings: {
      step: [1, 2, 3, 4, 5, 5, 7, 7],
      frame: [0, 1, 2, 2, 1, 1, 2, 2],
      name: [0, 0, 0, 3, 1, 4, 2, 5],
      value: [0, 0, 0, 2, 1, 3, 1, 4],
    },
    values,
    valid: { "1": [[6, [2, 1]]] },
    events,
    writes,
  };
}

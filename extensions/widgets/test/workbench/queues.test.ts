import { describe, expect, it } from "vitest";
import { Cursor } from "../../src/workbench/cursor";
import type { EventRow } from "../../src/workbench/payload";
import { laneState, Queues } from "../../src/workbench/queues";
import { Recording } from "../../src/workbench/recording";
import { timeline } from "./recorded";

const recording = new Recording(timeline());

const summary = (queues: Queues, k: number): unknown =>
  queues.at(k).map((q) => [q.pushed, q.popped, q.freed, q.depth, q.entries.map((e) => [e.slot, e.heldBy, e.valid]), q.waiters.map((w) => w.lane)]);

describe("queues", () => {
  const expected: Readonly<Record<number, unknown>> = {
    0: [],
    3: [],
    4: [[0, 0, 0, null, [], [2]]],
    6: [[1, 0, 0, 2, [[0, null, [1, 2]]], []]], // what lane 2 waits for is there: its turn has only not come yet
    7: [[1, 1, 0, 2, [[0, 2, [1, 2]]], []]],
    8: [[1, 1, 1, 2, [], []]],
    10: [[1, 1, 1, 2, [], []]],
  };

  it("are replayed to every position, in any order", () => {
    const queues = new Queues(recording);
    for (const k of [10, 4, 8, 0, 7, 6, 3, 4]) expect(summary(queues, k), `step ${k}`).toEqual(expected[k]);
  });

  it("of a group begin empty", () => {
    const data = timeline();
    const again = [...data.events, [9, 5, 0, "", null, null, null, "group", "", null] as EventRow];
    expect(new Queues(new Recording({ ...data, events: again })).at(9)).toEqual([]);
  });

  it("are the same with checkpoints as without", () => {
    const data = timeline();
    const many: EventRow[] = [];
    for (let n = 0; n < 3000; n++) {
      many.push([1 + Math.floor(n / 300), n % 2, 1, `C2V[${n % 6 < 4 ? 0 : 1}]#0`, Math.floor(n / 2) % 3, 1, 4, "", "", null]);
    }
    const long = new Recording({ ...data, events: many });
    const jumping = new Queues(long);
    jumping.at(10);
    for (const k of [3, 9, 1, 7, 10, 5]) expect(jumping.at(k)).toEqual(new Queues(long).at(k));
  });
});

describe("lane states", () => {
  const at = (position: number): unknown => {
    const cursor = new Cursor(recording);
    cursor.goto(position);
    return [0, 1, 2].map((lane) => laneState(cursor, lane).status);
  };

  it("say who runs, who waits, who is done", () => {
    expect(at(0)).toEqual(["not started", "not started", "not started"]);
    expect(at(4)).toEqual(["ready", "ready", "waits"]);
    expect(at(6)).toEqual(["ready", "done", "ready"]);
    expect(at(7)).toEqual(["ready", "done", "running"]);
    expect(at(10)).toEqual(["done", "done", "done"]);
  });

  it("name the pipe, the operation and the reason of a wait", () => {
    const cursor = new Cursor(recording);
    cursor.goto(5);
    expect(laneState(cursor, 2).waiting).toEqual({ lane: 2, pipe: "C2V[0]#0", operation: "pop", reason: "empty", since: 4 });
  });
});

import { describe, expect, it } from "vitest";
import { Cursor, onLane } from "../../src/workbench/cursor";
import { countUpTo, Recording } from "../../src/workbench/recording";
import { timeline } from "./recorded";

const cursorAt = (position: number, stops: readonly (readonly number[])[] = []): Cursor => {
  const cursor = new Cursor(new Recording(timeline()), stops);
  cursor.goto(position);
  return cursor;
};

describe("countUpTo", () => {
  it("counts equal numbers in", () => {
    expect([0, 1, 2, 3, 9].map((limit) => countUpTo([1, 2, 2, 5], limit))).toEqual([0, 1, 3, 3, 4]);
    expect(countUpTo([], 4)).toBe(0);
  });
});

describe("moving", () => {
  it("stays inside the recording", () => {
    const cursor = cursorAt(0);
    expect(cursor.back()).toBe(false);
    cursor.goto(99);
    expect(cursor.position).toBe(10);
    expect(cursor.step()).toBe(false);
    cursor.goto(-3);
    expect(cursor.position).toBe(0);
  });

  it("steps back to where it was from every position", () => {
    const cursor = cursorAt(0);
    for (let k = 1; k <= 10; k++) {
      cursor.step();
      const { position } = cursor;
      cursor.step();
      if (k < 10) cursor.back();
      expect(cursor.position).toBe(position);
      expect(position).toBe(k);
    }
  });

  it("follows the lane that made the step", () => {
    expect([1, 2, 4, 5, 10].map((k) => cursorAt(k).focus.lane)).toEqual([0, 1, 2, 1, 0]);
  });

  it("goes to the lane's next and last step", () => {
    const cursor = cursorAt(4);
    cursor.nextEvent();
    expect(cursor.position).toBe(7);
    cursor.previousEvent();
    expect(cursor.position).toBe(4);
  });

  it("steps over waits, and calls", () => {
    const cursor = cursorAt(3);
    cursor.over();
    expect(cursor.position).toBe(7);
    cursor.backOver();
    expect(cursor.position).toBe(3);
    cursor.goto(1);
    cursor.over();
    expect(cursor.position).toBe(10);
  });

  it("steps into what the frame calls, and out of it", () => {
    const cursor = cursorAt(1);
    cursor.into();
    expect(cursor.position).toBe(2);
    const lane = cursorAt(5);
    lane.out();
    expect(lane.position).toBe(6);
    expect(lane.out()).toBe(false);
  });
});

describe("focus", () => {
  it("on a lane keeps the position and stops following", () => {
    const cursor = cursorAt(5);
    cursor.focusOn(onLane(2));
    expect([cursor.position, cursor.focus.lane, cursor.following]).toEqual([5, 2, false]);
    cursor.step();
    expect(cursor.focus.lane).toBe(2);
    cursor.follow();
    expect(cursor.focus.lane).toBe(1);
  });

  it("on an iteration goes to its next step, or its first", () => {
    const cursor = cursorAt(5);
    cursor.focusOn({ ...onLane(2), iteration: [1] });
    expect(cursor.position).toBe(9);
    cursor.goto(10);
    cursor.focusOn({ ...onLane(2), iteration: [0] });
    expect(cursor.position).toBe(4);
    expect(cursor.focusedSteps).toEqual([4, 7, 8]);
  });

  it("on what does not exist changes nothing", () => {
    const cursor = cursorAt(5);
    cursor.focusOn({ ...onLane(2), iteration: [7] });
    expect([cursor.position, cursor.focus.iteration, cursor.following]).toEqual([5, null, true]);
  });
});

describe("breakpoints", () => {
  it("stop at every step of their line, both ways", () => {
    const cursor = cursorAt(0);
    expect(cursor.toggleBreakpoint({ file: "kernel.py", line: 10 })).toBe(true);
    expect(cursor.run()).toBe(true);
    expect(cursor.position).toBe(8);
    cursor.run();
    expect(cursor.position).toBe(9);
    expect(cursor.run()).toBe(false);
    expect(cursor.position).toBe(10);
    cursor.runBack();
    expect(cursor.position).toBe(9);
    expect(cursor.toggleBreakpoint({ file: "kernel.py", line: 10 })).toBe(false);
    expect(cursor.runBack()).toBe(false);
    expect(cursor.position).toBe(0);
  });

  it("of the script are those of its lines", () => {
    const cursor = cursorAt(0);
    cursor.toggleBreakpoint({ file: null, line: 105 });
    cursor.run();
    expect(cursor.position).toBe(6);
  });

  it("given as steps stop, too", () => {
    const cursor = cursorAt(0, [[5], [9]]);
    cursor.run();
    expect(cursor.position).toBe(5);
    cursor.run();
    expect(cursor.position).toBe(9);
  });
});

describe("search", () => {
  it("finds statements, operations and lines, and goes around", () => {
    const cursor = cursorAt(6);
    expect(cursor.search("TILE.MATMUL")).toBe(true);
    expect(cursor.position).toBe(5);
    cursor.search("line 10");
    expect(cursor.position).toBe(8);
    cursor.search("line 10", -1);
    expect(cursor.position).toBe(9);
    expect(cursor.search("nothing like it")).toBe(false);
    expect(cursor.search("  ")).toBe(false);
    expect(cursor.position).toBe(9);
  });
});

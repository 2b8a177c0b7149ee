// Breakpoints as they travel to and from the kernel's session (`pypto_lab/view/workbench/stops.py`).
import type { Cursor, Line } from "./cursor";

/** A breakpoint as data: the fields of its kind, a few words, and the steps at which it stops. */
export interface Stop {
  readonly kind: string;
  readonly label: string;
  readonly steps: readonly number[];
  readonly [field: string]: unknown;
}

const LINE_FIELDS = new Set(["kind", "label", "steps", "line", "file"]);

/** Gives the cursor these breakpoints instead of its own. */
export function takeStops(cursor: Cursor, stops: readonly Stop[]): void {
  cursor.clearBreakpoints();
  for (const stop of stops) {
    const line = lineOf(cursor, stop);
    if (line) cursor.addLine(line, stop);
    else cursor.addBreak({ label: stop.label, steps: new Set(stop.steps), stop });
  }
}

/** The cursor's breakpoints. */
export function stopsOf(cursor: Cursor): Stop[] {
  const lines = [...cursor.breakpoints.values()].map(({ line, stop }) => stop ?? lineStop(cursor, line));
  return [...lines, ...cursor.breaks.map(({ label, steps, stop }) => stop ?? { kind: "steps", label, steps: [...steps] })];
}

function lineStop(cursor: Cursor, line: Line): Stop {
  const steps = cursor.stepsOn(line);
  if (line.file === null) return { kind: "steps", label: `script line ${line.line}`, steps };
  return { kind: "line", label: `${line.file}:${line.line}`, line: line.line, file: line.file, steps };
}

/** The line that a breakpoint stops at in the gutter: of those that stop at all steps of one line, and nowhere else. */
function lineOf(cursor: Cursor, stop: Stop): Line | null {
  if (stop.kind !== "line" || Object.keys(stop).some((field) => !LINE_FIELDS.has(field))) return null;
  const file = cursor.recording.statementOf(stop.steps[0] ?? 0)?.[9];
  if (file === undefined) return null;
  const line = { file, line: Number(stop["line"]) };
  const steps = new Set(cursor.stepsOn(line));
  return steps.size === stop.steps.length && stop.steps.every((step) => steps.has(step)) ? line : null;
}

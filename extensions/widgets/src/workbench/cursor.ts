// One cursor in a recording: the moves of `pypto_lab/record/session.py`, done where they are seen.
import { countUpTo, Kind, type Recording } from "./recording";
import type { Stop } from "./stops";

export interface Focus {
  readonly lane: number;
  readonly block: number | null;
  readonly task: number | null;
  readonly iteration: readonly number[] | null;
}

/** A line of a text; `file` is null for the script. */
export interface Line {
  readonly file: string | null;
  readonly line: number;
}

/** Where a run stops besides lines: a few words, and the steps; `stop` where it is more to the kernel than its steps. */
export interface Break {
  readonly label: string;
  readonly steps: ReadonlySet<number>;
  readonly stop?: Stop;
}

/** A line where a run stops; `stop` where it came from the kernel. */
export interface LineBreak {
  readonly line: Line;
  readonly stop?: Stop;
}

export const lineKey = (line: Line): string => `${line.file ?? ""}\n${line.line}`;

export class Cursor {
  position = 0;
  following = true;
  focus: Focus;
  /** Counts changes of the breakpoints. */
  changes = 0;
  readonly #lines = new Map<string, LineBreak>();
  readonly #breaks: Break[];
  #focused: readonly [Focus, number[]] | undefined;

  constructor(
    readonly recording: Recording,
    stops: readonly (readonly number[] | Break)[] = [],
  ) {
    this.#breaks = stops.map((stop) => ("label" in stop ? stop : { label: "stop", steps: new Set(stop) }));
    this.focus = onLane(recording.length ? (recording.laneOfStep[0] ?? 0) : 0);
  }

  get length(): number {
    return this.recording.length;
  }

  // --- moving by step

  goto(position: number): void {
    this.position = Math.max(0, Math.min(this.length, position));
    if (this.following && this.position) this.focus = onLane(this.recording.laneOfStep[this.position - 1] ?? 0);
  }

  step(): boolean {
    return this.#to(this.position < this.length ? this.position + 1 : undefined);
  }

  back(): boolean {
    return this.#to(this.position > 0 ? this.position - 1 : undefined);
  }

  /** The focused lane's next step. */
  nextEvent(): boolean {
    const steps = this.focusedSteps;
    return this.#to(steps[countUpTo(steps, this.position)]);
  }

  previousEvent(): boolean {
    const steps = this.focusedSteps;
    return this.#to(steps[countUpTo(steps, this.position - 1) - 1]);
  }

  // --- moving by structure

  /** The focused lane's next statement in the same function (or a caller's), past its calls and waits. */
  over(): boolean {
    const steps = this.laneSteps();
    return this.#to(this.#neighbour(steps.slice(countUpTo(steps, this.position))));
  }

  backOver(): boolean {
    const steps = this.laneSteps();
    return this.#to(this.#neighbour(steps.slice(0, countUpTo(steps, this.position - 1)).reverse()));
  }

  /** The next step inside what the focused frame does next. */
  into(): boolean {
    const here = this.frame();
    if (here === undefined) return this.step();
    for (let step = this.position + 1; step <= this.length; step++) {
      if (this.#inside(this.recording.frameOf(step), here)) return this.#to(step);
    }
    return this.nextEvent();
  }

  /** The focused lane's first step after the current function; its last step where it started there. */
  out(): boolean {
    const here = this.frame();
    const steps = this.laneSteps();
    const last = steps.at(-1);
    if (here === undefined || last === undefined) return false;
    const end = this.recording.data.frames[here]?.[4] ?? 0;
    const next = steps[countUpTo(steps, Math.max(end, this.position))];
    return this.#to(next ?? (last > this.position ? last : undefined));
  }

  #neighbour(steps: readonly number[]): number | undefined {
    const { recording } = this;
    const here = this.frame();
    const depth = here === undefined ? Infinity : (recording.depthOfFrame[here] ?? 0);
    return steps.find(
      (s) => recording.kindOf(s) !== Kind.Blocked && (recording.depthOfFrame[recording.frameOf(s)] ?? 0) <= depth,
    );
  }

  #inside(frame: number, outer: number): boolean {
    for (let f = frame; f >= 0; f = this.recording.data.frames[f]?.[2] ?? -1) if (f === outer) return true;
    return false;
  }

  #to(position: number | undefined): boolean {
    if (position === undefined) return false;
    this.goto(position);
    return true;
  }

  // --- focus

  /** Looks at a lane and a part of its steps from now on; goes to the first of them if the cursor is elsewhere. */
  focusOn(focus: Focus): void {
    const steps = this.stepsIn(focus);
    if (steps.length === 0) return;
    this.focus = focus;
    this.following = false;
    const narrowed = focus.block !== null || focus.task !== null || focus.iteration !== null;
    const at = countUpTo(steps, this.position);
    if (narrowed && steps[at - 1] !== this.position) this.position = steps[at] ?? (steps[0] as number);
  }

  follow(): void {
    this.following = true;
    if (this.position) this.focus = onLane(this.recording.laneOfStep[this.position - 1] ?? 0);
  }

  get focusedSteps(): number[] {
    if (this.#focused?.[0] !== this.focus) this.#focused = [this.focus, this.stepsIn(this.focus)];
    return this.#focused[1];
  }

  stepsIn(focus: Focus): number[] {
    const { recording } = this;
    const steps = recording.stepsOfLane[focus.lane] ?? [];
    if (focus.block === null && focus.task === null && focus.iteration === null) return steps;
    return steps.filter((s) => {
      if (focus.block !== null && focus.block !== recording.blockOf(s)) return false;
      if (focus.task !== null && focus.task !== recording.taskOf(s)) return false;
      return focus.iteration === null || endsWith(recording.iterationsOf(s), focus.iteration);
    });
  }

  /** Steps of a lane (the focused one) in the focused block, or in any. */
  laneSteps(lane: number = this.focus.lane): number[] {
    return this.stepsIn({ ...onLane(lane), block: this.focus.block });
  }

  /** A lane's last step up to the position, 0 before its first. */
  lastStep(lane: number = this.focus.lane): number {
    const steps = this.laneSteps(lane);
    return steps[countUpTo(steps, this.position) - 1] ?? 0;
  }

  /** The innermost activation of a lane at the position. */
  frame(lane: number = this.focus.lane): number | undefined {
    const last = this.lastStep(lane);
    return last ? this.recording.frameOf(last) : undefined;
  }

  // --- breakpoints

  /** Breakpoints on lines, by `lineKey`. */
  get breakpoints(): ReadonlyMap<string, LineBreak> {
    return this.#lines;
  }

  /** Breakpoints on anything but a line, in the order in which they were set. */
  get breaks(): readonly Break[] {
    return this.#breaks;
  }

  toggleBreakpoint(line: Line): boolean {
    if (!this.#lines.delete(lineKey(line))) this.addLine(line);
    else this.changes++;
    return this.#lines.has(lineKey(line));
  }

  addLine(line: Line, stop?: Stop): void {
    this.changes++;
    this.#lines.set(lineKey(line), stop ? { line, stop } : { line });
  }

  addBreak(found: Break): void {
    this.changes++;
    this.#breaks.push(found);
  }

  removeBreak(index: number): void {
    this.changes++;
    this.#breaks.splice(index, 1);
  }

  clearBreakpoints(): void {
    this.changes++;
    this.#lines.clear();
    this.#breaks.length = 0;
  }

  /** Steps of a line's statements. */
  stepsOn(line: Line): number[] {
    const wanted = this.statementsAt(line);
    const { statement } = this.recording.data.steps;
    return statement.flatMap((id, i) => (wanted.has(id) ? [i + 1] : []));
  }

  /** Statements of a line. */
  statementsAt({ file, line }: Line): Set<number> {
    const found = new Set<number>();
    this.recording.data.statements.forEach((s, id) => {
      const hit = file === null ? s[2] <= line && line <= s[3] : s[8] === line && s[9] === file;
      if (hit) found.add(id);
    });
    return found;
  }

  /** Forward to the next breakpoint, to the end without one. True when a breakpoint stopped it. */
  run(): boolean {
    return this.#run(1);
  }

  runBack(): boolean {
    return this.#run(-1);
  }

  #run(direction: 1 | -1): boolean {
    const wanted = new Set<number>();
    for (const { line } of this.#lines.values()) for (const id of this.statementsAt(line)) wanted.add(id);
    const { statement } = this.recording.data.steps;
    for (let step = this.position + direction; step >= 1 && step <= this.length; step += direction) {
      if (wanted.has(statement[step - 1] ?? -1) || this.#breaks.some((b) => b.steps.has(step))) return this.#to(step);
    }
    this.goto(direction === 1 ? this.length : 0);
    return false;
  }

  /** The next (or last) step that says `text`: in its statement, operation, source place or names. */
  search(text: string, direction: 1 | -1 = 1): boolean {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return false;
    for (let n = 1; n <= this.length; n++) {
      const step = ((this.position - 1 + direction * n + 2 * this.length) % this.length) + 1;
      const statement = this.recording.statementOf(step);
      const said = `${this.recording.textOf(step)} ${statement?.[10] ?? ""} ${this.recording.lineOf(step)}`;
      if (said.toLowerCase().includes(wanted)) return this.#to(step);
    }
    return false;
  }
}

export function onLane(lane: number): Focus {
  return { lane, block: null, task: null, iteration: null };
}

function endsWith(all: readonly number[], end: readonly number[]): boolean {
  return end.every((n, i) => all[all.length - end.length + i] === n);
}

// A recording's tables and the lookups that all views share: what a name holds at a position, when it was written.
import type { StatementRow, TensorRow, Timeline, ValueRow } from "./payload";

export const Kind = {
  Statement: 0,
  Enter: 1,
  Loop: 2,
  Condition: 3,
  Return: 4,
  Blocked: 5,
  Failed: 6,
  Changed: 7,
} as const;

export const Event = { Push: 0, Pop: 1, Free: 2, Blocked: 3, Resumed: 4, Reset: 5 } as const;

export interface Binding {
  readonly step: number;
  readonly frame: number;
  readonly name: string;
  readonly value: number;
}

interface History {
  readonly steps: number[];
  readonly values: number[];
}

interface StorageWrites {
  readonly ids: number[];
  readonly steps: number[];
  readonly lows: number[];
  readonly highs: number[];
}

const NO_WRITES: StorageWrites = { ids: [], steps: [], lows: [], highs: [] };

/** How many of the ascending `numbers` are at most `limit`. */
export function countUpTo(numbers: ArrayLike<number>, limit: number): number {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((numbers[middle] as number) <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class Recording {
  readonly length: number;
  readonly laneOfStep: Int32Array;
  readonly stepsOfLane: number[][];
  readonly stepsOfFrame: readonly number[][];
  readonly depthOfFrame: number[];
  readonly eventSteps: number[];
  /** By frame: the history of each name, in order of first binding. */
  readonly names: readonly Map<string, History>[];
  /** By storage: the first step whose value lives there, and that value. */
  readonly creation = new Map<number, readonly [step: number, value: number]>();
  readonly #writes = new Map<number, StorageWrites>();

  constructor(readonly data: Timeline) {
    const { steps, frames, lanes } = data;
    this.length = steps.kind.length;
    this.laneOfStep = Int32Array.from(steps.frame, (frame) => frames[frame]?.[1] ?? 0);
    this.stepsOfLane = lanes.map(() => []);
    this.stepsOfFrame = frames.map(() => []);
    for (let i = 0; i < this.length; i++) {
      this.stepsOfLane[this.laneOfStep[i] ?? 0]?.push(i + 1);
      this.stepsOfFrame[steps.frame[i] ?? 0]?.push(i + 1);
    }
    this.depthOfFrame = [];
    for (const frame of frames) {
      this.depthOfFrame.push(frame[2] < 0 ? 0 : (this.depthOfFrame[frame[2]] ?? 0) + 1);
    }
    this.eventSteps = data.events.map((event) => event[0]);
    this.names = frames.map(() => new Map<string, History>());
    this.#readBindings();
    this.#readWrites();
  }

  #readBindings(): void {
    const { step, frame, name, value } = this.data.bindings;
    for (let i = 0; i < step.length; i++) {
      const names = this.names[frame[i] as number];
      const text = this.data.names[name[i] as number] as string;
      const history: History = names?.get(text) ?? { steps: [], values: [] };
      names?.set(text, history);
      history.steps.push(step[i] as number);
      history.values.push(value[i] as number);
      for (const tensor of this.tensorsOf(value[i] as number)) {
        const storage = (this.data.values[tensor] as TensorRow)[4];
        if (storage >= 0 && !this.creation.has(storage)) this.creation.set(storage, [step[i] as number, tensor]);
      }
    }
  }

  #readWrites(): void {
    this.data.writes.forEach(([step, storage, offset, shape, strides, item], id) => {
      const writes = this.#writes.get(storage) ?? { ids: [], steps: [], lows: [], highs: [] };
      this.#writes.set(storage, writes);
      writes.ids.push(id);
      writes.steps.push(step);
      writes.lows.push(offset);
      writes.highs.push(offset + shape.reduce((sum, n, axis) => sum + (n - 1) * (strides[axis] ?? 0), 0) + item);
    });
  }

  // --- steps

  laneName(step: number): string {
    return this.data.lanes[this.laneOfStep[step - 1] ?? 0] ?? "";
  }

  frameOf(step: number): number {
    return this.data.steps.frame[step - 1] ?? 0;
  }

  kindOf(step: number): number {
    return this.data.steps.kind[step - 1] ?? Kind.Statement;
  }

  /** The SPMD block of a step, -1 outside one. */
  blockOf(step: number): number {
    return this.data.steps.block[step - 1] ?? -1;
  }

  taskOf(step: number): number {
    return this.data.steps.task[step - 1] ?? -1;
  }

  iterationsOf(step: number): readonly number[] {
    return this.data.steps.turns[this.data.steps.turn[step - 1] ?? -1] ?? [];
  }

  statementOf(step: number): StatementRow | undefined {
    return this.data.statements[this.data.steps.statement[step - 1] ?? -1];
  }

  /** The statement as the script has it; for a step without one, what happened. */
  textOf(step: number): string {
    const statement = this.statementOf(step);
    if (statement) return statement[4];
    return { [Kind.Failed]: "the run ended here", [Kind.Changed]: "changed by a what-if" }[this.kindOf(step)] ?? "";
  }

  /** The kernel's source line where known, else the script's line. */
  sourceOf(step: number): string {
    const statement = this.statementOf(step);
    if (!statement) return "-";
    return statement[8] > 0 ? `${shortName(statement[9])}:${statement[8]}` : `script:${statement[2]}`;
  }

  /** The line people know a step by: `line 33`, or `script line 41`. */
  lineOf(step: number): string {
    const statement = this.statementOf(step);
    if (!statement) return "";
    return statement[8] > 0 ? `line ${statement[8]}` : `script line ${statement[2]}`;
  }

  coordinate(step: number): string {
    const parts = [this.laneName(step)];
    if (this.taskOf(step) >= 0) parts.push(`task ${this.taskOf(step)}`);
    if (this.blockOf(step) >= 0) parts.push(`block ${this.blockOf(step)}`);
    const turns = this.iterationsOf(step);
    if (turns.length > 0) parts.push(`iteration ${turns.join(".")}`);
    return parts.join(", ");
  }

  /** Indices of the events of a step, half open. */
  eventsAt(step: number): readonly [number, number] {
    return [countUpTo(this.eventSteps, step - 1), countUpTo(this.eventSteps, step)];
  }

  /** A frame and its callers, outwards. */
  callers(frame: number): number[] {
    const out = [];
    for (let f = frame; f >= 0; f = this.data.frames[f]?.[2] ?? -1) out.push(f);
    return out;
  }

  // --- names and values

  bound(frame: number, name: string, position: number): Binding | undefined {
    const history = this.names[frame]?.get(name);
    const at = history ? countUpTo(history.steps, position) : 0;
    if (!history || at === 0) return undefined;
    return { step: history.steps[at - 1] as number, frame, name, value: history.values[at - 1] as number };
  }

  value(id: number): ValueRow {
    return this.data.values[id] as ValueRow;
  }

  tensor(id: number | null | undefined): TensorRow | undefined {
    const row = id === null || id === undefined ? undefined : this.data.values[id];
    return row?.[0] === "t" ? row : undefined;
  }

  tensorsOf(id: number): number[] {
    const row = this.value(id);
    if (row[0] === "t") return [id];
    if (row[0] === "l") return row[1].flatMap((item) => this.tensorsOf(item));
    if (row[0] === "m") return row[2].flatMap((item) => this.tensorsOf(item));
    return [];
  }

  /** A tensor's valid shape at a position, null where the whole box is valid. */
  valid(id: number, position: number): readonly number[] | null {
    for (const [step, before] of this.data.valid[String(id)] ?? []) if (step > position) return before;
    return this.tensor(id)?.[3] ?? null;
  }

  writesTo(storage: number): StorageWrites {
    return this.#writes.get(storage) ?? NO_WRITES;
  }

  /** [low, high) of the bytes of its storage that a tensor can touch. */
  interval(tensor: TensorRow): readonly [number, number] {
    const [, , shape, , , strides, offset, item] = tensor;
    if (shape.includes(0)) return [0, 0];
    const low = offset * item;
    return [low, low + shape.reduce((sum, n, axis) => sum + (n - 1) * (strides[axis] ?? 0), 0) * item + item];
  }

  /** The last step up to `position` that wrote into a tensor, 0 when none did. */
  lastWrite(id: number, position: number): number {
    const tensor = this.tensor(id);
    if (!tensor || tensor[4] < 0) return 0;
    const writes = this.writesTo(tensor[4]);
    const [low, high] = this.interval(tensor);
    for (let i = countUpTo(writes.steps, position) - 1; i >= 0; i--) {
      if ((writes.lows[i] as number) < high && (writes.highs[i] as number) > low) return writes.steps[i] as number;
    }
    return 0;
  }

  /** Names the content of a tensor at a position, as Python does (`tiles.py`). */
  key(id: number, position: number): string {
    let version = this.lastWrite(id, position);
    for (const [step] of this.data.valid[String(id)] ?? []) if (step <= position) version = Math.max(version, step);
    return `${id}@${version}`;
  }

  /** The step that gave a variable its content: its binding, or a later write into it. */
  lastWritten(binding: Binding, position: number): number {
    return Math.max(binding.step, this.lastWrite(binding.value, position));
  }
}

/** A file's name without its folders. */
export const shortName = (file: string): string => file.split(/[\\/]/).pop() ?? file;

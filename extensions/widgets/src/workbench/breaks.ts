// Breakpoints on what happens (`pypto_lab/record/breakpoints.py`): the steps at which each stops.
import type { Stats } from "./payload";
import { Event, type Recording } from "./recording";

export const QUEUE_EVENTS = { push: Event.Push, pop: Event.Pop, free: Event.Free, blocked: Event.Blocked, resumed: Event.Resumed } as const;
export type QueueEvent = keyof typeof QUEUE_EVENTS;
type Interval = readonly [low: number, high: number];
const NO_MEMORIES: ReadonlySet<number> = new Set();
export type Comparison = "above" | "below" | "equal";

/** A variable's name without the version that the compiler gives it. */
export const plainName = (name: string): string => name.split("__ssa_v")[0] ?? name;

/** Names of variables, those of versions once. */
export function variableNames(recording: Recording): string[] {
  const hidden = new Set(["condition", "return"]);
  const names = new Set(recording.data.names.filter((name) => !hidden.has(name)).map(plainName));
  return [...names].sort((a, b) => a.localeCompare(b, "en"));
}

export function operations(recording: Recording): string[] {
  return [...new Set(recording.data.statements.map((s) => s[10]).filter((op): op is string => op !== null))].sort();
}

export function pipes(recording: Recording): string[] {
  return [...new Set(recording.data.events.map((e) => e[3]).filter(Boolean))].sort();
}

/** Steps at which a variable gets a value or is written in place. */
export function variableStops(recording: Recording, name: string, memories: ReadonlySet<number> = NO_MEMORIES): Set<number> {
  const steps = new Set<number>();
  const storages = new Map<number, Interval[]>();
  const { bindings, names } = recording.data;
  bindings.step.forEach((step, i) => {
    const bound = names[bindings.name[i] as number] ?? "";
    if (bound !== name && plainName(bound) !== name) return;
    steps.add(step);
    const tensor = recording.tensor(bindings.value[i]);
    if (!tensor || tensor[4] < 0) return;
    const parts = storages.get(tensor[4]) ?? [];
    const [low, high] = recording.interval(tensor);
    if (!parts.some((part) => part[0] === low && part[1] === high)) storages.set(tensor[4], [...parts, [low, high]]);
  });
  for (const [storage, parts] of storages) {
    const { steps: written, lows, highs } = recording.writesTo(storage);
    written.forEach((step, i) => {
      // a memory belongs to many tiles, any other storage to one tensor and its views
      const touched = (part: Interval): boolean => (lows[i] as number) < part[1] && (highs[i] as number) > part[0];
      if (!memories.has(storage) || parts.some(touched)) steps.add(step);
    });
  }
  return steps;
}

/** Steps of an operation: `tile.add`, or `add` for every layer's. */
export function operationStops(recording: Recording, op: string): Set<number> {
  const { statements, steps } = recording.data;
  const wanted = new Set<number>();
  statements.forEach((s, id) => {
    if (s[10] !== null && (s[10] === op || s[10].split(".").pop() === op)) wanted.add(id);
  });
  const out = new Set<number>();
  steps.statement.forEach((statement, i) => {
    if (wanted.has(statement)) out.add(i + 1);
  });
  return out;
}

/** Steps with a queue event, of one pipe or of any. */
export function queueStops(recording: Recording, event: QueueEvent, pipe: string | null): Set<number> {
  const hits = recording.data.events.filter((e) => e[1] === QUEUE_EVENTS[event] && (pipe === null || e[3] === pipe));
  return new Set(hits.map((e) => e[0]));
}

/** Whether a value is so: a number itself, of a tensor any of its valid cells; null where that is not known. */
function holds(recording: Recording, value: number, step: number, comparison: Comparison, limit: number, stats: (key: string) => Stats | undefined): boolean | null {
  const row = recording.value(value);
  let [low, high] = [NaN, NaN];
  if (row[0] === "s") low = high = row[1] === "True" ? 1 : row[1] === "False" ? 0 : Number(row[1]);
  else if (row[0] === "t") {
    const found = stats(recording.key(value, step));
    if (!found) return null;
    [low, high] = [found.low ?? NaN, found.high ?? NaN];
  }
  if (comparison === "above") return high > limit;
  if (comparison === "below") return low < limit;
  return low === limit && high === limit;
}

/** Steps at which a variable comes to be above, below or equal to a number; `unknown` counts those nobody knows of. */
export function valueStops(
  recording: Recording,
  name: string,
  comparison: Comparison,
  limit: number,
  stats: (key: string) => Stats | undefined,
  memories: ReadonlySet<number> = NO_MEMORIES,
): { readonly steps: Set<number>; readonly unknown: number } {
  const steps = new Set<number>();
  let unknown = 0;
  recording.names.forEach((names, frame) => {
    for (const [own, history] of names) {
      if (own !== name && plainName(own) !== name) continue;
      const changes = [...variableStops(recording, own, memories)].filter((s) => recording.bound(frame, own, s)).sort((a, b) => a - b);
      let before = false;
      for (const step of changes) {
        if (step < (history.steps[0] ?? Infinity)) continue;
        const now = holds(recording, recording.bound(frame, own, step)?.value ?? 0, step, comparison, limit, stats);
        if (now === null) unknown++;
        else if (now && !before) steps.add(step);
        before = now ?? false;
      }
    }
  });
  return { steps, unknown };
}

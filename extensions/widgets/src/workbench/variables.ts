// The variables of a lane at a position, as `Session.variables` gives them.
import type { Cursor } from "./cursor";
import type { Stats } from "./payload";
import type { Binding, Recording } from "./recording";

export interface Variable {
  readonly binding: Binding;
  readonly name: string;
  readonly kind: "tensor" | "scalar" | "other";
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly valid: readonly number[];
  /** For a tensor the key of its cells, else its text. */
  readonly key: string | null;
  readonly text: string;
  readonly lastWritten: number;
}

const HIDDEN = new Set(["condition", "return"]);

/** In order of first binding; `stats` gives a tensor's statistics where they are known. */
export function variablesOf(
  cursor: Cursor,
  lane: number,
  stats: (key: string) => Stats | undefined,
): readonly Variable[] {
  const frame = cursor.frame(lane);
  if (frame === undefined) return [];
  const out: Variable[] = [];
  for (const name of cursor.recording.names[frame]?.keys() ?? []) {
    const binding = HIDDEN.has(name) ? undefined : cursor.recording.bound(frame, name, cursor.position);
    if (binding) out.push(variable(cursor.recording, binding, cursor.position, stats));
  }
  return out;
}

export function variable(
  recording: Recording,
  binding: Binding,
  position: number,
  stats: (key: string) => Stats | undefined,
): Variable {
  const row = recording.value(binding.value);
  const lastWritten = recording.lastWritten(binding, position);
  const base = { binding, name: binding.name, lastWritten, shape: [], valid: [], key: null, dtype: "" };
  if (row[0] === "t") {
    const valid = recording.valid(binding.value, position) ?? row[2];
    const key = recording.key(binding.value, position);
    const text = valueText(recording, binding.value, position, stats);
    return { ...base, kind: "tensor", dtype: row[1], shape: row[2], valid, key, text };
  }
  if (row[0] === "s") return { ...base, kind: "scalar", dtype: row[2], text: row[1] };
  return { ...base, kind: "other", text: valueText(recording, binding.value, position, stats) };
}

/** A value in a few words, as Python's `shown` has it. */
export function valueText(
  recording: Recording,
  id: number,
  position: number,
  stats: (key: string) => Stats | undefined,
): string {
  const row = recording.value(id);
  const text = (item: number): string => valueText(recording, item, position, stats);
  switch (row[0]) {
    case "t": {
      const valid = recording.valid(id, position);
      const shown = valid ? ` valid [${valid.join(", ")}]` : "";
      return `${row[1]} [${row[2].join(", ")}]${shown}: ${stats(recording.key(id, position))?.text ?? "…"}`;
    }
    case "l":
      return `(${row[1].map(text).join(", ")})`;
    case "m":
      return `{${row[2].map((item, i) => `${row[1][i]}: ${text(item)}`).join(", ")}}`;
    default:
      return row[1];
  }
}

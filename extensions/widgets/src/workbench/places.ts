// Where a tile lies on its tensor: from loads and stores, or because it is a part of a larger tile's memory.
import type { Bench } from "./bench";
import type { TensorRow } from "./payload";
import type { Binding, Recording } from "./recording";

export interface Part {
  readonly row: number;
  readonly column: number;
  readonly rows: number;
  readonly columns: number;
}

export interface Place extends Part {
  /** `on` a tensor it was loaded from or is part of, or on its way `to` one it is stored in. */
  readonly how: "on" | "of" | "to";
  readonly tensor: number;
  readonly name: string;
  readonly shape: readonly number[];
  readonly offsets: readonly number[];
  /** Parts written so far, and by which lane; only of tensors that the run stores into. */
  readonly written: readonly (Part & { readonly lane: number })[];
  /** What nobody has written yet, where that is one block of rows. */
  readonly unwritten: readonly Part[];
}

/** Null where nothing is known, or the tile is the whole tensor's only name. */
export function placeOn(bench: Bench, binding: Binding): Place | null {
  const { recording } = bench;
  const tile = recording.tensor(binding.value);
  if (!tile || tile[2].length === 0) return null;
  const row = bench.placeOf(binding);
  if (row && row[3] === "load") return made(bench, tile, row[4], row[5], "on");
  const part = partOfStorage(recording, binding.value, tile);
  if (part) return made(bench, tile, part[0], part[1], "of");
  return row ? made(bench, tile, row[4], row[5], "to") : null;
}

function made(
  bench: Bench,
  tile: TensorRow,
  tensor: number,
  offsets: readonly number[],
  how: Place["how"],
): Place | null {
  const whole = bench.recording.tensor(tensor);
  if (!whole || whole[2].length !== offsets.length || offsets.length === 0) return null;
  const part = matrixPart(whole[2], offsets, tile[2]);
  if (!part) return null;
  const rows = whole[2].slice(0, -1).reduce((a, b) => a * b, 1);
  const written = how === "to" ? writtenParts(bench, whole) : [];
  const unwritten = how === "to" ? gaps(written, rows, whole[2].at(-1) ?? 1) : [];
  return { how, tensor, name: nameOf(bench, tensor), shape: whole[2], offsets, ...part, written, unwritten };
}

/** The rows and columns of a part in the matrix that the whole is drawn as. */
export function matrixPart(
  whole: readonly number[],
  offsets: readonly number[],
  shape: readonly number[],
): Part | null {
  const last = whole.length - 1;
  const columns = Math.min(shape.at(-1) ?? 1, (whole[last] ?? 1) - (offsets[last] ?? 0));
  if (columns <= 0) return null;
  if (last === 0) return { row: 0, column: offsets[0] ?? 0, rows: 1, columns };
  let row = 0;
  for (let axis = 0; axis < last; axis++) row = row * (whole[axis] ?? 1) + (offsets[axis] ?? 0);
  const high = whole.slice(0, -1).reduce((a, b) => a * b, 1);
  const rows = Math.min(shape.slice(0, -1).reduce((a, b) => a * b, 1), high - row);
  return rows > 0 ? { row, column: offsets[last] ?? 0, rows, columns } : null;
}

/** The larger tensor whose memory a tile is a part of, with the tile's offsets in it. */
export function partOfStorage(
  recording: Recording,
  value: number,
  tile: TensorRow,
): readonly [tensor: number, offsets: number[]] | null {
  const first = recording.creation.get(tile[4])?.[1];
  const whole = recording.tensor(first);
  if (first === undefined || !whole || first === value || whole[2].length !== tile[2].length) return null;
  const size = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);
  if (size(whole[2]) <= size(tile[2]) || whole[1] !== tile[1]) return null;
  let rest = tile[6] - whole[6];
  const offsets = whole[2].map((_, axis) => {
    const stride = whole[5][axis] ?? 0;
    if (stride <= 0) return 0;
    const at = Math.floor(rest / stride);
    rest -= at * stride;
    return at;
  });
  const fits = offsets.every((o, axis) => o >= 0 && o + (tile[2][axis] ?? 1) <= (whole[2][axis] ?? 1));
  return rest === 0 && fits ? [first, offsets] : null;
}

const MOST_PARTS = 64;

/** Regions of a tensor that steps have written up to the cursor. */
export function writtenParts(bench: Bench, whole: TensorRow): (Part & { lane: number })[] {
  const { recording, cursor } = bench;
  const out: (Part & { lane: number })[] = [];
  const columns = whole[2].at(-1) ?? 1;
  const writes = recording.writesTo(whole[4]);
  for (let i = 0; i < writes.ids.length && (writes.steps[i] ?? 0) <= cursor.position; i++) {
    const write = recording.data.writes[writes.ids[i] as number];
    if (!write || write[3].length === 0) continue;
    const first = write[2] / whole[7] - whole[6];
    const rows = write[3].slice(0, -1).reduce((a, b) => a * b, 1);
    const lane = recording.laneOfStep[write[0] - 1] ?? 0;
    out.push({ row: Math.floor(first / columns), column: first % columns, rows, columns: write[3].at(-1) ?? 1, lane });
  }
  return out.slice(-MOST_PARTS);
}

/** Blocks of whole rows that no part touches. */
export function gaps(parts: readonly Part[], rows: number, columns: number): Part[] {
  const out: Part[] = [];
  const sorted = [...parts].sort((a, b) => a.row - b.row);
  let from = 0;
  for (const part of sorted) {
    if (part.row > from) out.push({ row: from, column: 0, rows: part.row - from, columns });
    from = Math.max(from, part.row + part.rows);
  }
  if (from < rows) out.push({ row: from, column: 0, rows: rows - from, columns });
  return out;
}

/** The name a value goes by: a parameter's, else that of its first binding. */
function nameOf(bench: Bench, value: number): string {
  const { bindings, names } = bench.payload.timeline;
  const at = bindings.value.indexOf(value);
  return at < 0 ? "tensor" : (names[bindings.name[at] ?? 0] ?? "tensor");
}

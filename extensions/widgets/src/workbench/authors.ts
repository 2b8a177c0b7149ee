// Who wrote a cell: the latest write that covers it, else the statement that made its storage (`author_of`).
import type { TensorRow, WriteRow } from "./payload";
import { countUpTo, type Binding, type Recording } from "./recording";

export interface Author {
  readonly step: number;
  readonly how: "argument" | "created" | "written";
}

/** Whether a write begins an element at a byte address. */
export function covers(write: WriteRow, address: number): boolean {
  const [, , offset, shape, strides] = write;
  let rest = address - offset;
  const axes = shape.map((size, axis) => [strides[axis] ?? 0, size] as const).sort((a, b) => b[0] - a[0] || b[1] - a[1]);
  for (const [stride, size] of axes) {
    if (stride === 0) continue;
    const index = Math.min(Math.floor(rest / stride), size - 1);
    if (index < 0) return false;
    rest -= index * stride;
  }
  return rest === 0;
}

/** The byte address of a cell in its storage. */
export function addressOf(tensor: TensorRow, cell: readonly number[]): number {
  return (tensor[6] + cell.reduce((sum, index, axis) => sum + index * (tensor[5][axis] ?? 0), 0)) * tensor[7];
}

/** The cell's index of a row and column of the matrix that a tensor is drawn as. */
export function cellAt(shape: readonly number[], row: number, column: number): number[] {
  if (shape.length === 0) return [];
  if (shape.length === 1) return [column];
  const out = [column];
  let rest = row;
  for (let axis = shape.length - 2; axis >= 0; axis--) {
    const size = shape[axis] || 1;
    out.unshift(axis === 0 ? rest : rest % size);
    rest = Math.floor(rest / size);
  }
  return out;
}

export function authorOf(recording: Recording, binding: Binding, cell: readonly number[], position: number): Author {
  const tensor = recording.tensor(binding.value);
  if (!tensor || tensor[4] < 0) return { step: binding.step, how: "created" };
  const address = addressOf(tensor, cell);
  const writes = recording.writesTo(tensor[4]);
  for (let i = countUpTo(writes.steps, position) - 1; i >= 0; i--) {
    if ((writes.lows[i] as number) > address || (writes.highs[i] as number) <= address) continue;
    const write = recording.data.writes[writes.ids[i] as number] as WriteRow;
    if (covers(write, address)) return { step: write[0], how: "written" };
  }
  return makerOf(recording, tensor, address);
}

/** Who is behind a cell that nobody wrote: an argument, a statement, or for a copy the writer of its original. */
function makerOf(recording: Recording, tensor: TensorRow, address: number): Author {
  const [step, first] = recording.creation.get(tensor[4]) ?? [0, -1];
  if (step <= 1 || Object.values(recording.data.facts.inputs).includes(first)) return { step: 0, how: "argument" };
  const updates = recording.statementOf(step)?.[11];
  const made = recording.tensor(first);
  if (updates && made) {
    const before = recording.bound(recording.frameOf(step), updates, step - 1);
    const source = recording.tensor(before?.value);
    const cell = source && sameShape(source[2], made[2]) ? cellOf(made, address) : undefined;
    if (before && source && source[4] >= 0 && cell) return authorOf(recording, before, cell, step - 1);
  }
  return { step, how: "created" };
}

function sameShape(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((n, i) => n === b[i]);
}

/** The index of the cell at an address, undefined for an address between cells. */
function cellOf(tensor: TensorRow, address: number): number[] | undefined {
  let rest = address / tensor[7] - tensor[6];
  const out = tensor[2].map(() => 0);
  const axes = tensor[2].map((_, axis) => axis).sort((a, b) => (tensor[5][b] ?? 0) - (tensor[5][a] ?? 0));
  for (const axis of axes) {
    const stride = tensor[5][axis] ?? 0;
    if (stride === 0) continue;
    out[axis] = Math.min(Math.floor(rest / stride), (tensor[2][axis] ?? 1) - 1);
    rest -= (out[axis] ?? 0) * stride;
  }
  return rest === 0 && out.every((n) => n >= 0) ? out : undefined;
}

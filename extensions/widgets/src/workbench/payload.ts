// What Python sends once (`pypto_lab/view/workbench/bench.py`, payload) and how it is unpacked.

import type { Stop } from "./stops";

export type StatementRow = readonly [
  fn: number,
  kind: number,
  line: number,
  endLine: number,
  text: string,
  targets: readonly string[],
  reads: readonly string[],
  file: number,
  spotLine: number,
  spotFile: string,
  op: string | null,
  updates: string | null,
  /** The line of the user's kernel, where the statement's own line is in a text made from it. */
  origin: string,
];

export type FrameRow = readonly [fn: number, lane: number, parent: number, begin: number, end: number];

export type EventRow = readonly [
  step: number,
  kind: number,
  lane: number,
  pipe: string,
  slot: number | null,
  value: number | null,
  depth: number | null,
  operation: string,
  reason: string,
  block: number | null,
];

export type WriteRow = readonly [
  step: number,
  storage: number,
  offset: number,
  shape: readonly number[],
  strides: readonly number[],
  item: number,
];

export type TensorRow = readonly [
  "t",
  dtype: string,
  shape: readonly number[],
  valid: readonly number[] | null,
  storage: number,
  strides: readonly number[],
  offset: number,
  item: number,
];

export type ValueRow =
  | TensorRow
  | readonly ["s", text: string, type: string]
  | readonly ["l", items: readonly number[]]
  | readonly ["m", keys: readonly string[], items: readonly number[]]
  | readonly ["o", text: string];

export interface Timeline {
  readonly version: number;
  readonly facts: {
    readonly entry: string;
    readonly seed: number;
    readonly status: string;
    readonly error: string;
    readonly policy: string;
    readonly branch: string;
    readonly notes: readonly string[];
    readonly inputs: Readonly<Record<string, number>>;
    readonly outputs: Readonly<Record<string, number>>;
  };
  readonly lanes: readonly string[];
  readonly used: readonly number[];
  readonly files: readonly string[];
  readonly functions: readonly (readonly [name: string, line: number])[];
  readonly statements: readonly StatementRow[];
  readonly frames: readonly FrameRow[];
  readonly steps: {
    readonly kind: readonly number[];
    readonly statement: readonly number[];
    readonly frame: readonly number[];
    readonly block: readonly number[];
    readonly task: readonly number[];
    readonly turn: readonly number[];
    readonly turns: readonly (readonly number[])[];
  };
  readonly names: readonly string[];
  readonly bindings: {
    readonly step: readonly number[];
    readonly frame: readonly number[];
    readonly name: readonly number[];
    readonly value: readonly number[];
  };
  readonly values: readonly ValueRow[];
  readonly valid: Readonly<Record<string, readonly (readonly [step: number, before: readonly number[] | null])[]>>;
  readonly events: readonly EventRow[];
  readonly writes: readonly WriteRow[];
}

export interface Listing {
  readonly name: string;
  readonly file: string;
  readonly first: number;
  readonly lines: readonly string[];
  readonly full: Readonly<Record<string, string>>;
  readonly unfolded: boolean;
}

export interface Stats {
  readonly low: number | null;
  readonly high: number | null;
  readonly mean: number | null;
  readonly lowText: string;
  readonly highText: string;
  readonly meanText: string;
  readonly nan: number;
  readonly inf: number;
  readonly cells: number;
  readonly text: string;
}

export interface OutputNumbers {
  readonly name: string;
  readonly ok: boolean;
  readonly lines: readonly string[];
  readonly message: string;
  readonly rtol: number;
  readonly atol: number;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly maxAbs: number | null;
  readonly maxRel: number | null;
  readonly wrong: number;
  readonly total: number;
  readonly guesses: readonly string[];
  readonly key: string | null;
  readonly reach: number;
  readonly bars: readonly number[];
  readonly leftOut: number;
}

export interface Stage {
  readonly number: number;
  readonly name: string;
  readonly file: string;
  readonly changed: boolean;
  readonly added: number;
  readonly removed: number;
  readonly diff: readonly string[];
  readonly status: string;
  readonly error: number | null;
  readonly message: string;
  readonly functions: readonly string[];
  readonly findings: readonly Finding[];
}

/** What is asked for when a stage is looked at: its graph with what it did to the one before, and its text. */
export interface StageDetail {
  readonly index: number;
  /** Empty where there is nothing before to compare with. */
  readonly svg: string;
  readonly marks: Readonly<Record<string, string>>;
  readonly summary: string;
  readonly text: string;
}

export interface Finding {
  readonly severity: string;
  readonly rule: string;
  readonly message: string;
  readonly hint: string;
  readonly note: string;
  readonly where: string;
  readonly times: number;
  readonly file: string;
  readonly line: number;
}

/** A file of a build. */
export interface Artifact {
  readonly name: string;
  readonly role: string;
  readonly state: string;
  /** The state in words. */
  readonly words: string;
  readonly note: string;
  readonly text: string;
  readonly language: string;
}

/** A tile of the memory plan (`plan.py`); `begin` and `end` count the statements of its function. */
export type PlannedTile = readonly [
  name: string,
  address: number,
  bytes: number,
  begin: number,
  end: number,
  line: number,
  ring: boolean,
];

export interface PlannedSpace {
  readonly space: string;
  readonly capacity: number | null;
  readonly peak: number;
  readonly peakAt: number;
  readonly top: number;
  readonly tiles: readonly PlannedTile[];
}

export interface FunctionMemory {
  readonly function: string;
  readonly kind: string;
  readonly file: string;
  readonly spaces: readonly PlannedSpace[];
}

/** A row of `places.tensor_places`: where the variable bound at a step lies on a tensor. */
export type PlaceRow = readonly [
  step: number,
  frame: number,
  name: string,
  how: "load" | "store" | "toward",
  tensor: number,
  offsets: readonly number[],
];

/** A row of `places.memory_places`. */
export type MemoryRow = readonly [
  file: string,
  line: number,
  name: string,
  space: string,
  address: number,
  bytes: number,
];

export interface Payload {
  readonly title: string;
  readonly timeline: Timeline;
  readonly sources: readonly Listing[];
  readonly script: Listing;
  readonly places: readonly PlaceRow[];
  readonly memory: readonly MemoryRow[];
  readonly plan: readonly FunctionMemory[];
  /** Storages that are an on-chip memory, with its name: what lies there has its bytes as address. */
  readonly memories: Readonly<Record<string, string>>;
  readonly stats: Readonly<Record<string, Stats>>;
  readonly golden: readonly number[];
  readonly numbers: readonly OutputNumbers[];
  readonly graph: { readonly svg: string; readonly text: string; readonly files: Readonly<Record<string, string>> } | null;
  readonly stages: readonly Stage[];
  readonly artifacts: readonly Artifact[];
  readonly checks: readonly Finding[];
  /** Steps at which a NaN or an infinity comes up; null where that has to be asked for. */
  readonly nonFinite: readonly number[] | null;
  readonly divergence: { readonly step: number; readonly text: string; readonly name?: string } | null;
  readonly stops: readonly Stop[];
}

export const VERSION = 1;

/** The bytes of base64 text. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

/** Unpacks gzip. */
export async function gunzip(packed: BlobPart): Promise<ArrayBuffer> {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return await new Response(stream).arrayBuffer();
}

/** The payload in compressed JSON. Throws an Error for tables of another version. */
export async function unpack(packed: BlobPart): Promise<Payload> {
  const payload = JSON.parse(new TextDecoder().decode(await gunzip(packed))) as Payload;
  if (payload.timeline.version !== VERSION) {
    throw new Error(`this view reads recordings of version ${VERSION}, not ${payload.timeline.version}`);
  }
  return payload;
}

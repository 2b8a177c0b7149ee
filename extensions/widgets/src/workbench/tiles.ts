// Cells of tensors: kept as they arrive, asked for when they are shown.
import type { Stats } from "./payload";

export interface TileHead {
  readonly key: string;
  readonly rows: number;
  readonly columns: number;
  readonly shown: readonly [rows: number, columns: number];
  readonly validRows: readonly (readonly [number, number])[];
  readonly validColumns: number;
  readonly stats: Stats;
  readonly wide: boolean;
}

export interface Tile extends TileHead {
  readonly data: Float32Array | Float64Array;
}

/** A part of a tensor whose true cells are wanted; rows and columns as the tensor is drawn. */
export interface Window {
  readonly key: string;
  readonly row: number;
  readonly column: number;
  readonly rows: number;
  readonly columns: number;
}

/** Where tiles come from: a kernel, or the page they are in. */
export interface TileSource {
  /** Brings tiles; they come by `Tiles.add`, or `Tiles.refuse`. */
  ask(keys: readonly string[]): void;
  /** Brings the cells of a part of a tensor, by `Tiles.addWindow` or `Tiles.refuseWindow`. */
  askWindow?(window: Window): void;
}

const MOST = 400;
const MOST_WINDOWS = 64;

const nameOf = (w: Window): string => `${w.key}/${w.row}/${w.column}/${w.rows}/${w.columns}`;

export function tileFrom(head: TileHead, bytes: ArrayBuffer, offset = 0): Tile {
  const [rows, columns] = head.shown;
  const count = rows * columns;
  const part = bytes.slice(offset, offset + count * (head.wide ? 8 : 4));
  return { ...head, data: head.wide ? new Float64Array(part) : new Float32Array(part) };
}

export class Tiles {
  readonly #held = new Map<string, Tile>();
  readonly #refused = new Map<string, string>();
  readonly #asked = new Set<string>();
  readonly #windows = new Map<string, Float64Array | null>();
  readonly #coarse = new Map<string, string>();
  #wanted: string[] = [];

  constructor(
    readonly stats: Readonly<Record<string, Stats>>,
    readonly source: TileSource,
    readonly arrived: () => void,
    readonly most = MOST,
  ) {}

  /** A tile, if it is here; else it is asked for and `arrived` is called once it is. */
  get(key: string): Tile | undefined {
    const tile = this.#held.get(key);
    if (tile) {
      this.#held.delete(key);
      this.#held.set(key, tile); // the least recently shown one is dropped first
      return tile;
    }
    if (!this.#refused.has(key) && !this.#asked.has(key)) {
      this.#asked.add(key);
      if (this.#wanted.push(key) === 1) queueMicrotask(() => this.#send());
    }
    return undefined;
  }

  /** Why a tile cannot be shown, empty when nothing is known against it. */
  refusal(key: string): string {
    return this.#refused.get(key) ?? "";
  }

  statsOf(key: string): Stats | undefined {
    return this.#held.get(key)?.stats ?? this.stats[key];
  }

  add(tile: Tile): void {
    this.#asked.delete(tile.key);
    this.#held.set(tile.key, tile);
    if (this.#held.size > this.most) {
      const oldest = this.#held.keys().next().value;
      if (oldest !== undefined) this.#held.delete(oldest);
    }
  }

  refuse(key: string, why: string): void {
    this.#asked.delete(key);
    this.#refused.set(key, why);
  }

  /** The true cells of a part of a tensor, row by row; else they are asked for. Null for a part that cannot be had. */
  window(wanted: Window): Float64Array | null | undefined {
    const name = nameOf(wanted);
    const held = this.#windows.get(name);
    if (held) return held;
    if (!this.source.askWindow || this.#coarse.has(wanted.key)) return null;
    if (held === undefined) {
      this.#windows.set(name, null); // on its way
      queueMicrotask(() => this.source.askWindow?.(wanted));
    }
    return undefined;
  }

  addWindow(window: Window, cells: Float64Array): void {
    this.#windows.set(nameOf(window), cells);
    if (this.#windows.size > MOST_WINDOWS) {
      const oldest = this.#windows.keys().next().value;
      if (oldest !== undefined) this.#windows.delete(oldest);
    }
  }

  /** The true cells of a tensor are not to be had, only what is drawn. */
  refuseWindow(key: string, why: string): void {
    this.#coarse.set(key, why);
  }

  /** Why only what is drawn of a tensor can be shown, empty when nothing is known against more. */
  coarse(key: string): string {
    return this.#coarse.get(key) ?? "";
  }

  #send(): void {
    const keys = this.#wanted;
    this.#wanted = [];
    this.source.ask(keys);
  }
}

/** Which cell of what is drawn shows a cell of the whole. */
export function blockOf(tile: TileHead): readonly [rows: number, columns: number] {
  return [
    Math.max(1, Math.ceil(tile.rows / Math.max(1, tile.shown[0]))),
    Math.max(1, Math.ceil(tile.columns / Math.max(1, tile.shown[1]))),
  ];
}

/** Whether a cell lies in the valid region. */
export function isValid(tile: TileHead, row: number, column: number): boolean {
  return column < tile.validColumns && tile.validRows.some(([from, to]) => from <= row && row < to);
}

// What all views of one workbench share: the recording, the cursor, what is pinned and chosen, and the moves.
import { authorOf, cellAt } from "./authors";
import { readPalette, type Palette } from "./colours";
import { Cursor, type Line } from "./cursor";
import { newPrefix } from "./dom";
import type { MemoryRow, Payload, PlaceRow, StageDetail, StatementRow } from "./payload";
import { Queues } from "./queues";
import { takeStops } from "./stops";
import { Recording, type Binding } from "./recording";
import { Tiles, type TileSource } from "./tiles";
import { variable, variablesOf, type Variable } from "./variables";

/** What views ask for when they are looked at: a kernel answers, or the page. */
export interface Source extends TileSource {
  /** Brings a stage's graph and text, by `Bench.addStage` or `Bench.refuseStage`. */
  askStage?(index: number): void;
  /** Brings the steps at which something that is not finite comes up, by `Bench.nonFinite`. */
  askNonFinite?(): void;
}

export type TileMode = "values" | "expected" | "difference";

export class Bench {
  readonly prefix = newPrefix();
  readonly recording: Recording;
  readonly cursor: Cursor;
  readonly queues: Queues;
  readonly tiles: Tiles;
  readonly golden: ReadonlySet<number>;
  readonly lanes: readonly number[];
  /** Steps that wrote to memory in place: stores. */
  readonly stores: ReadonlySet<number>;
  /** Storages that are an on-chip memory. */
  readonly memories: ReadonlySet<number>;
  /** The variable shown as a tile whatever the step wrote. */
  pinned: string | null = null;
  mode: TileMode = "values";
  /** A source line that the pointer is on the way to. */
  hot: Line | null = null;
  /** Shows a line of a text, wherever that text is. */
  reveal: (line: Line) => void = () => undefined;
  /** Steps at which a NaN or an infinity comes up, null while nobody has said. */
  nonFinite: readonly number[] | null;
  readonly #stages = new Map<number, StageDetail | string>();
  #palette: Palette | undefined;
  readonly #places = new Map<string, PlaceRow>();
  readonly #memory = new Map<string, MemoryRow[]>();

  constructor(
    readonly payload: Payload,
    readonly root: HTMLElement,
    readonly source: Source,
    /** Shows everything anew. */
    readonly changed: (moved: boolean) => void,
    readonly say: (message: string) => void,
  ) {
    this.recording = new Recording(payload.timeline);
    this.cursor = new Cursor(this.recording);
    takeStops(this.cursor, payload.stops);
    this.nonFinite = payload.nonFinite;
    this.queues = new Queues(this.recording);
    this.tiles = new Tiles(payload.stats, source, () => this.changed(false));
    this.golden = new Set(payload.golden);
    this.lanes = payload.timeline.used;
    this.memories = new Set(Object.keys(payload.memories).map(Number));
    this.stores = new Set(payload.timeline.writes.map((write) => write[0]));
    for (const row of payload.places) this.#places.set(`${row[0]}/${row[1]}/${row[2]}`, row);
    for (const row of payload.memory) {
      const key = `${row[0]}\n${row[1]}`;
      this.#memory.set(key, [...(this.#memory.get(key) ?? []), row]);
    }
  }

  get palette(): Palette {
    return (this.#palette ??= readPalette(this.root));
  }

  /** The theme changed. */
  forgetColours(): void {
    this.#palette = undefined;
  }

  laneName(lane: number): string {
    return this.payload.timeline.lanes[lane] ?? "";
  }

  // --- moves

  /** Does a move and shows the result; says so when there was nowhere to go. */
  move(action: () => boolean | void, nowhere = "there is no such step"): void {
    const before = this.cursor.position;
    const done = action();
    this.changed(true);
    if (done === false && before === this.cursor.position) this.say(nowhere);
  }

  goto(position: number, lane?: number): void {
    this.move(() => {
      this.cursor.goto(position);
      if (lane !== undefined && this.cursor.focus.lane !== lane) this.chooseLane(lane);
    });
  }

  chooseLane(lane: number): void {
    this.cursor.focusOn({ lane, block: null, task: null, iteration: null });
  }

  /** The next step, after the cursor and around, of a statement on a line. */
  gotoLine(line: Line): void {
    const wanted = this.cursor.statementsAt(line);
    const { statement } = this.payload.timeline.steps;
    const n = this.recording.length;
    for (let k = 1; k <= n; k++) {
      const step = ((this.cursor.position - 1 + k + n) % n) + 1;
      if (wanted.has(statement[step - 1] ?? -1)) return this.goto(step);
    }
    this.say("no step is on this line");
  }

  /** Goes to the step that wrote a cell of a variable. */
  gotoWriter(binding: Binding, row: number, column: number): void {
    const shape = this.recording.tensor(binding.value)?.[2] ?? [];
    const cell = cellAt(shape, row, column);
    const author = authorOf(this.recording, binding, cell, this.cursor.position);
    const place = `${binding.name}[${cell.join(", ")}]`;
    if (author.how === "argument") return this.say(`${place} came in with the arguments: no step wrote it`);
    this.goto(author.step);
    this.say(`${place} was ${author.how} at step ${author.step}, ${this.describe(author.step)}`);
  }

  describe(step: number): string {
    if (step === 0) return "before the first step";
    const line = this.recording.lineOf(step);
    return `${this.recording.coordinate(step)}${line ? `, ${line}` : ""}: ${this.recording.textOf(step)}`;
  }

  /** Where a step stands in one of the texts, null where it does not. */
  lineIn(step: number, file: string | null): number | null {
    const statement = step ? this.recording.statementOf(step) : undefined;
    if (!statement) return null;
    if (file === null) return statement[2];
    return statement[8] > 0 && statement[9] === file ? statement[8] : null;
  }

  /** The text that most statements come from. */
  get mainFile(): string | null {
    return this.payload.sources[0]?.file ?? null;
  }

  // --- stages

  /** A stage's graph and text, or what to say while it is not here; it is asked for once. */
  stage(index: number): StageDetail | string {
    const held = this.#stages.get(index);
    if (held !== undefined) return held;
    if (!this.source.askStage) return "not in this page";
    this.#stages.set(index, "\u2026");
    queueMicrotask(() => this.source.askStage?.(index));
    return "\u2026";
  }

  addStage(detail: StageDetail): void {
    this.#stages.set(detail.index, detail);
  }

  refuseStage(index: number, why: string): void {
    this.#stages.set(index, why);
  }

  /** Whether anything of the run is known to lie on chip. */
  get hasPlaces(): boolean {
    return this.payload.memory.length > 0 || Object.keys(this.payload.memories).length > 0;
  }

  // --- variables and tiles

  variables(lane = this.cursor.focus.lane): readonly Variable[] {
    return variablesOf(this.cursor, lane, (key) => this.tiles.statsOf(key));
  }

  /** The tile to show: the pinned variable, else the tensor the lane's last writing step gave. */
  shownVariable(): Variable | null {
    const all = this.variables();
    const pinned = this.pinned === null ? undefined : all.find((v) => v.name === this.pinned);
    if (pinned) return pinned;
    const tensors = all.filter((v) => v.kind === "tensor" && v.shape.length > 0);
    const own = tensors.filter((v) => !this.#isParameter(v));
    const candidates = own.length > 0 ? own : tensors;
    return candidates.reduce<Variable | null>((best, v) => (!best || v.lastWritten >= best.lastWritten ? v : best), null);
  }

  #isParameter(v: Variable): boolean {
    return this.recording.kindOf(v.binding.step) === 1 && v.lastWritten === v.binding.step;
  }

  /** A variable as seen from its binding, for views other than the table. */
  seen(binding: Binding): Variable {
    return variable(this.recording, binding, this.cursor.position, (key) => this.tiles.statsOf(key));
  }

  placeOf(binding: Binding): PlaceRow | undefined {
    return this.#places.get(`${binding.step}/${binding.frame}/${binding.name}`);
  }

  /** Where a variable lies on chip, as its type says. */
  memoryOf(binding: Binding): MemoryRow | undefined {
    const tensor = this.recording.tensor(binding.value);
    const space = tensor ? this.payload.memories[String(tensor[4])] : undefined;
    if (tensor && space !== undefined) {
      const [low, high] = this.recording.interval(tensor);
      return ["", 0, binding.name, space, low, high - low];
    }
    const statement: StatementRow | undefined = this.recording.statementOf(binding.step);
    const rows = statement ? this.#memory.get(`${statement[9]}\n${statement[8]}`) : undefined;
    const named = rows?.find((row) => row[2].replace(/_+/g, "_") === binding.name.replace(/_+/g, "_"));
    return named ?? (rows?.length === 1 ? rows[0] : undefined); // passes leave several variables on one line
  }
}

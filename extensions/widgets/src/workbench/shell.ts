// The workbench around its views: header, tabs, transport, keyboard, and what a screen reader hears.
import { Bench, type Source } from "./bench";
import type { Line } from "./cursor";
import { escaped, h, icon } from "./dom";
import { laneTag } from "./lanes";
import type { Payload } from "./payload";
import { stopsOf, takeStops, type Stop } from "./stops";
import { TabList } from "./tabs";
import { FocusControls } from "./focus";
import { ArtifactsView } from "./views/artifacts";
import { BreakMenu } from "./views/breaks";
import { ChecksView } from "./views/checks";
import { GraphView } from "./views/graph";
import { MemoryView } from "./views/memory";
import { NumbersView } from "./views/numbers";
import { PassesView } from "./views/passes";
import { QueuesView } from "./views/queues";
import { SourceView } from "./views/source";
import { TileView } from "./views/tile";
import { TimelineView } from "./views/timeline";
import { VariablesView } from "./views/variables";
import type { View } from "./views/view";

export interface CursorState {
  readonly position: number;
  readonly lane: string;
  readonly block: number | null;
  readonly task: number | null;
  readonly iteration: readonly number[] | null;
  readonly following: boolean;
}

interface Action {
  readonly name: string;
  readonly label: string;
  readonly keys: string;
  readonly icon: string;
  readonly run: () => void;
  /** Whether there is anywhere to go. */
  readonly can: () => boolean;
}

const ICONS = {
  first: '<path d="M3.5 3.5v9M12.5 3.5L6 8l6.5 4.5z"/>',
  back: '<path d="M11.5 3.5L5 8l6.5 4.5z"/>',
  step: '<path d="M4.5 3.5L11 8l-6.5 4.5z" fill="currentColor"/>',
  last: '<path d="M12.5 3.5v9M3.500 3.500L10 8l-6.500 4.500z"/>',
  backOver: '<path d="M13.5 9a5.500 5.500 0 0 0-10.500-1.500M2.700 3.800v4h3.900"/><circle cx="8" cy="12" r="1.5" fill="currentColor" stroke="none"/>',
  over: '<path d="M2.500 9a5.500 5.500 0 0 1 10.500-1.500M13.300 3.800v4H9.400"/><circle cx="8" cy="12" r="1.5" fill="currentColor" stroke="none"/>',
  into: '<path d="M8 2.500v7M5 6.700l3 3 3-3"/><circle cx="8" cy="13" r="1.5" fill="currentColor" stroke="none"/>',
  out: '<path d="M8 9.500v-7M5 5.300l3-3 3 3"/><circle cx="8" cy="13" r="1.5" fill="currentColor" stroke="none"/>',
  lane: '<path d="M2 4h12M2 12h12" opacity=".4"/><path d="M2 8h8.500M8 5.500L10.500 8 8 10.500"/><path d="M13.500 6v4"/>',
  run: '<path d="M2.500 3.500L9 8l-6.500 4.500z"/><circle cx="12.300" cy="8" r="2.200" fill="var(--pw-bad)" stroke="none"/>',
  divergence: '<path d="M2 8h4l6-4M6 8l6 4M10 3l2.500.7-.8 2.500M10 13l2.500-.7-.8-2.500"/>',
} as const;

export class Workbench {
  readonly bench: Bench;
  readonly #root: HTMLElement;
  readonly #live = h("div", { class: "pw-sr", "aria-live": "polite" });
  readonly #count = h("span", { class: "pw-count" });
  readonly #now = h("span", { class: "pw-now" });
  readonly #follow: HTMLButtonElement;
  readonly #search: HTMLInputElement;
  readonly #note = h("span", { class: "pw-said" });
  readonly #timeline: TimelineView;
  readonly #source: SourceView;
  readonly #focus: FocusControls;
  readonly #breaks: BreakMenu;
  #artifacts: ArtifactsView | null = null;
  readonly #step: readonly View[];
  readonly #tabs: TabList;
  readonly #panels = new Map<string, { readonly panel: HTMLElement; readonly views: readonly View[] }>();
  readonly #actions: readonly (Action | null)[];
  readonly #buttons = new Map<string, HTMLButtonElement>();
  readonly #observers: { disconnect(): void }[] = [];
  #tab = "step";
  #width = 0;
  #scheduled = false;
  #stopsTold = 0;

  constructor(
    root: HTMLElement,
    payload: Payload,
    source: Source,
    readonly moved: (state: CursorState) => void = () => undefined,
    /** The breakpoints were changed here. */
    readonly stopped: (stops: readonly Stop[]) => void = () => undefined,
  ) {
    this.#root = root;
    this.bench = new Bench(payload, root, source, (moved) => this.#changed(moved), (message) => this.say(message));
    const { bench } = this;
    this.#timeline = new TimelineView(bench);
    this.#source = new SourceView(bench);
    this.#focus = new FocusControls(bench);
    this.#breaks = new BreakMenu(bench);
    bench.reveal = (line) => this.#reveal(line);
    const queues = payload.timeline.events.length ? [new QueuesView(bench)] : [];
    this.#step = [this.#source, new TileView(bench), ...queues, new VariablesView(bench)];
    this.#actions = this.#makeActions();
    this.#follow = h("button", { type: "button", class: "pw-follow", title: "The focus moves to the lane that takes the step" }, "follow");
    this.#follow.addEventListener("click", () => this.#toggleFollow());
    this.#search = h("input", { type: "search", class: "pw-search", placeholder: "search steps", "aria-label": "Search steps", title: "Search in statements, operations and lines (/); Enter finds the next, Shift+Enter the one before" });
    this.#search.addEventListener("keydown", (event) => this.#searchKey(event));
    const choices = this.#addPanels(queues.length > 0);
    this.#stopsTold = bench.cursor.changes;
    this.#tabs = new TabList("Views", choices, bench.prefix, (key) => this.showTab(key), true);
    this.#build(choices.length > 1);
    root.addEventListener("keydown", (event) => this.#key(event));
    this.#keepKeys();
    this.#observe();
    this.showTab("step");
  }

  // --- building

  #addPanels(hasQueues: boolean): { key: string; label: string }[] {
    const { payload } = this.bench;
    const add = (key: string, label: string, views: readonly View[], className = ""): { key: string; label: string } => {
      const id = `${this.bench.prefix}-${key}`;
      const panel = h("div", { class: `pw-panel ${className}`, role: "tabpanel", id, "aria-labelledby": `${this.bench.prefix}-tab-${key}` }, ...views.map((v) => v.element));
      this.#panels.set(key, { panel, views });
      return { key, label };
    };
    const out = [add("step", "Step", this.#step, `pw-step${hasQueues ? "" : " pw-noqueues"}`)];
    if (payload.numbers.length) out.push(add("numbers", "Numbers", [new NumbersView(this.bench)]));
    if (payload.graph) out.push(add("graph", "Graph", [new GraphView(this.bench)]));
    if (this.bench.hasPlaces || payload.plan.length) out.push(add("memory", "Memory", [new MemoryView(this.bench)]));
    if (payload.stages.length) out.push(add("passes", "Passes", [new PassesView(this.bench)]));
    if (payload.artifacts.length) out.push(add("artifacts", "Artifacts", [(this.#artifacts = new ArtifactsView(this.bench))]));
    if (payload.checks.length) out.push(add("checks", "Checks", [new ChecksView(this.bench)]));
    return out;
  }

  #build(tabbed: boolean): void {
    const bar = h("div", { class: "pw-bar", role: "toolbar", "aria-label": "Transport" });
    for (const action of this.#actions) bar.append(action ? this.#button(action) : h("span", { class: "pw-gap" }));
    bar.append(h("span", { class: "pw-gap" }), this.#count, this.#now, this.#focus.element, this.#breaks.element, this.#search, this.#follow);
    bar.addEventListener("keydown", (event) => this.#toolbarKey(event, bar));
    const keys = h("span", { class: "pw-keys" });
    keys.innerHTML = "<kbd>←</kbd><kbd>→</kbd> step <kbd>F10</kbd> over <kbd>[</kbd><kbd>]</kbd> lane <kbd>/</kbd> search";
    const tabs = h("nav", { class: "pw-tabs", "aria-label": "Workbench" }, tabbed ? this.#tabs.element : h("span", { class: "pw-only" }, "Step"), this.#note, keys);
    const main = h("div", { class: "pw-main" }, ...[...this.#panels.values()].map((p) => p.panel));
    const shell = h("div", { class: "pw-shell" }, this.#header(), tabs, h("div", { class: "pw-trans" }, bar, this.#timeline.element), main);
    this.#root.classList.add("pw-root");
    this.#root.tabIndex = -1;
    this.#root.setAttribute("role", "group");
    this.#root.setAttribute("aria-label", `PyPTO Lab workbench, ${this.bench.payload.title}`);
    this.#root.replaceChildren(shell, this.#live);
  }

  #header(): HTMLElement {
    const { payload } = this.bench;
    const { facts } = payload.timeline;
    const head = h("header", { class: "pw-head" });
    const sub = [facts.entry !== payload.title ? facts.entry : "", facts.branch].filter(Boolean).join(", ");
    const chips: string[] = [];
    if (payload.numbers.length) {
      const ok = payload.numbers.every((n) => n.ok);
      const worst = payload.numbers.reduce<number | null>((m, n) => (n.maxAbs === null || m === null ? null : Math.max(m, n.maxAbs)), 0);
      const error = worst === null ? "" : `<span class="pw-sep"></span>max err <b>${worst === 0 ? "0" : worst.toPrecision(3)}</b>`;
      chips.push(chip(`${ok ? "\u2713" : "\u2717"} <b>${ok ? "match" : "mismatch"}</b>${error}`, ok));
    } else if (facts.status !== "finished") {
      chips.push(chip(`\u2717 <b>${escaped(facts.status)}</b>`, false, facts.error));
    }
    chips.push(chip(`seed <b>${facts.seed}</b>`, null, "Seed of the run"), chip(`order <b>${escaped(facts.policy)}</b>`, null, "How the next lane is chosen"));
    head.innerHTML =
      '<svg class="pw-logo" viewBox="0 0 20 20" aria-hidden="true"><rect x="1.5" y="6" width="6" height="8" fill="var(--pw-aic)"/><circle cx="15.5" cy="5" r="3" fill="var(--pw-aiv0)"/><path d="M15.500 11.300l3.700 3.700-3.700 3.700-3.700-3.700z" fill="var(--pw-aiv1)"/><path d="M8 9l4-3M8 11l4 3" stroke="var(--pw-ink2)" stroke-width="1.2"/></svg>' +
      `<span class="pw-name">${escaped(payload.title)}</span><span class="pw-dim pw-sub">${escaped(sub)}</span><span class="pw-grow"></span>${chips.join("")}`;
    return head;
  }

  #makeActions(): readonly (Action | null)[] {
    const { bench } = this;
    const { cursor } = bench;
    const ahead = (): boolean => cursor.position < cursor.length;
    const behind = (): boolean => cursor.position > 0;
    const make = (name: keyof typeof ICONS, label: string, keys: string, run: () => boolean | void, can: () => boolean, nowhere?: string): Action => ({
      name, label, keys, icon: ICONS[name], can,
      run: () => bench.move(run, nowhere),
    });
    const { divergence } = bench.payload;
    return [
      make("first", "First step", "Home", () => cursor.goto(0), behind),
      make("back", "Step back", "ArrowLeft", () => cursor.back(), behind),
      make("step", "Step", "ArrowRight", () => cursor.step(), ahead),
      make("last", "Last step", "End", () => cursor.goto(cursor.length), ahead),
      null,
      make("backOver", "Step back over", "Shift+F10", () => cursor.backOver(), behind, "the lane did nothing before"),
      make("over", "Step over: the lane's next statement, past calls and waits", "F10", () => cursor.over(), ahead, "the lane does nothing more"),
      make("into", "Step into", "F11", () => cursor.into(), ahead),
      make("out", "Step out of this function", "Shift+F11", () => cursor.out(), ahead, "the lane does nothing more"),
      make("lane", "Next step in the focused lane", "N", () => cursor.nextEvent(), ahead, "the lane does nothing more"),
      null,
      make("run", "Run to the next breakpoint", "F8", () => this.#run(1), ahead),
      ...(divergence && divergence.step > 0
        ? [make("divergence", `First divergence: ${divergence.text}`, "D", () => this.#toDivergence(), () => true)]
        : []),
    ];
  }

  #button(action: Action): HTMLButtonElement {
    const keys = action.keys.replace("ArrowLeft", "\u2190").replace("ArrowRight", "\u2192");
    const button = h("button", { type: "button", class: "pw-btn", "data-a": action.name, title: `${action.label} (${keys})`, "aria-label": action.label, "aria-keyshortcuts": action.keys, tabindex: -1 });
    button.innerHTML = icon(action.icon);
    button.addEventListener("click", () => {
      if (action.can()) action.run();
    });
    this.#buttons.set(action.name, button);
    return button;
  }

  #observe(): void {
    const theme = new MutationObserver(() => {
      this.bench.forgetColours();
      this.#redraw();
    });
    const watched = { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "class", "style"] };
    theme.observe(document.documentElement, watched);
    theme.observe(document.body, watched);
    const size = new ResizeObserver(() => {
      if (this.#root.clientWidth === this.#width) return;
      this.#width = this.#root.clientWidth;
      this.#redraw();
    });
    size.observe(this.#root);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const recolour = (): void => {
      this.bench.forgetColours();
      this.#redraw();
    };
    scheme.addEventListener("change", recolour);
    this.#observers.push(theme, size, { disconnect: () => scheme.removeEventListener("change", recolour) });
  }

  /** Stops watching the page. */
  close(): void {
    for (const observer of this.#observers) observer.disconnect();
  }

  // --- state

  showTab(key: string): void {
    this.#tab = this.#panels.has(key) ? key : "step";
    this.#tabs.select(this.#tab);
    for (const [name, { panel }] of this.#panels) panel.hidden = name !== this.#tab;
    this.#draw();
  }

  /** Shows a line where its text is: in the source, else among the artifacts. */
  #reveal(line: Line): void {
    const file = line.file || this.bench.mainFile;
    const before = this.#tab;
    this.showTab("step");
    if (this.#source.reveal({ ...line, file })) return this.say(`line ${line.line} of ${file ?? "the script"}`);
    this.showTab("artifacts");
    if (file !== null && this.#artifacts?.reveal(file, line.line)) return this.say(`line ${line.line} of ${file}`);
    this.showTab(before);
    this.say(`the text of ${file ?? "that file"} is not here`);
  }

  /** Takes the cursor's state from outside. */
  apply(state: CursorState): void {
    const { cursor } = this.bench;
    const lane = this.bench.payload.timeline.lanes.indexOf(state.lane);
    cursor.following = state.following;
    cursor.position = Math.max(0, Math.min(cursor.length, state.position));
    if (lane >= 0) cursor.focus = { lane, block: state.block, task: state.task, iteration: state.iteration };
    this.#draw();
  }

  /** Takes breakpoints from outside. */
  applyStops(stops: readonly Stop[]): void {
    takeStops(this.bench.cursor, stops);
    this.#stopsTold = this.bench.cursor.changes;
    this.#draw();
  }

  get state(): CursorState {
    const { position, focus, following } = this.bench.cursor;
    return { position, lane: this.bench.laneName(focus.lane), block: focus.block, task: focus.task, iteration: focus.iteration, following };
  }

  /** A line of text for everyone, a screen reader included. */
  say(message: string): void {
    this.#note.textContent = message;
    this.#note.title = message;
    this.#live.textContent = message;
  }

  #changed(moved: boolean): void {
    if (moved) {
      const { position } = this.bench.cursor;
      this.#note.textContent = "";
      this.#live.textContent = position ? `Step ${position}, ${this.bench.describe(position)}` : "Before the first step";
      this.moved(this.state);
    }
    if (this.bench.cursor.changes !== this.#stopsTold) {
      this.#stopsTold = this.bench.cursor.changes;
      this.stopped(stopsOf(this.bench.cursor));
    }
    this.#draw();
  }

  #redraw(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      this.#draw();
    });
  }

  /** Draws once more, for cells that have arrived. */
  refresh(): void {
    this.#redraw();
  }

  #draw(): void {
    const back = this.#keepFocus();
    const { cursor, recording } = this.bench;
    const { position } = cursor;
    this.#count.innerHTML = `step <b>${position}</b> <span class="pw-dim">/ ${recording.length}</span>`;
    this.#now.innerHTML = position
      ? `${laneTag(recording.laneName(position))}<span class="pw-dim">${escaped(recording.lineOf(position))}</span><code>${escaped(recording.textOf(position))}</code>`
      : '<span class="pw-dim">before the first step</span>';
    this.#now.title = position ? this.bench.describe(position) : "";
    this.#follow.setAttribute("aria-pressed", String(cursor.following));
    for (const action of this.#actions) {
      if (action) this.#buttons.get(action.name)?.setAttribute("aria-disabled", String(!action.can()));
    }
    this.#roving();
    this.#focus.draw();
    this.#breaks.draw();
    this.#timeline.draw();
    for (const view of this.#panels.get(this.#tab)?.views ?? []) view.draw();
    back();
  }

  /** Drawing anew replaces buttons; the focus goes to the one that took its place. */
  #keepFocus(): () => void {
    const held = document.activeElement as HTMLElement | null;
    if (!held || held === this.#root || !this.#root.contains(held)) return () => undefined;
    const home = held.closest<HTMLElement>("[role=region], [role=radiogroup], [role=tablist], [role=toolbar]");
    const data = Object.entries(held.dataset)[0];
    return () => {
      if (held.isConnected) return;
      const name = data?.[0].replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`);
      const next = data ? home?.querySelector<HTMLElement>(`[data-${name}="${CSS.escape(data[1] ?? "")}"]`) : null;
      (next ?? home ?? this.#root).focus({ preventScroll: true });
    };
  }

  // --- doing

  #run(direction: 1 | -1): void {
    const { cursor } = this.bench;
    const stopped = direction === 1 ? cursor.run() : cursor.runBack();
    if (!stopped) queueMicrotask(() => this.say(direction === 1 ? "ran to the end" : "ran back to the start"));
  }

  #toDivergence(): void {
    const { divergence } = this.bench.payload;
    if (!divergence) return;
    this.bench.cursor.goto(divergence.step);
    if (divergence.name) this.bench.pinned = divergence.name;
    queueMicrotask(() => this.say(divergence.text));
  }

  #toggleFollow(): void {
    const { cursor } = this.bench;
    this.bench.move(() => {
      if (cursor.following) cursor.following = false;
      else cursor.follow();
    });
  }

  #breakpoint(): void {
    const line = this.#source.currentLine;
    if (line) this.#source.toggle(line);
    else this.say("the lane stands on no line of this text");
  }

  #lane(move: 1 | -1): void {
    const { lanes, cursor } = this.bench;
    const at = lanes.indexOf(cursor.focus.lane);
    this.bench.move(() => this.bench.chooseLane(lanes[(at + move + lanes.length) % lanes.length] ?? 0));
  }

  #act(name: string): void {
    const action = this.#actions.find((a) => a?.name === name);
    if (action?.can()) action.run();
  }

  // --- keys

  /** Some hosts (Notebook 7) run their shortcuts before any element hears of a key; this tells them which are ours. */
  #keepKeys(): void {
    const guard = (event: KeyboardEvent): void => {
      if (event.target instanceof Element && this.#root.contains(event.target)) {
        event.target.toggleAttribute("data-lm-suppress-shortcuts", isOurs(event));
      }
    };
    window.addEventListener("keydown", guard, true);
    this.#observers.push({ disconnect: () => window.removeEventListener("keydown", guard, true) });
  }

  #key(event: KeyboardEvent): void {
    if (event.altKey || event.metaKey || event.ctrlKey) return;
    const target = event.target as HTMLElement;
    const typing = target.matches("input, select, textarea");
    const scrolls = /^(Arrow(Up|Down)|Home|End|Page)/.test(event.key) && target.matches(".pw-code, .pw-scroll, .pw-pipes, .pw-graph");
    const action = typing || scrolls ? undefined : this.#keyAction(event);
    if (action) {
      event.preventDefault();
      action();
    }
    if (isOurs(event)) event.stopPropagation();
  }

  #keyAction(event: KeyboardEvent): (() => void) | undefined {
    const { bench } = this;
    const { cursor } = bench;
    const name = `${event.shiftKey && event.key.length > 1 ? "Shift+" : ""}${event.key.length === 1 ? event.key.toLowerCase() : event.key}`;
    const keys: Readonly<Record<string, () => void>> = {
      ArrowRight: () => this.#act("step"),
      ArrowLeft: () => this.#act("back"),
      ArrowDown: () => this.#act("lane"),
      ArrowUp: () => bench.move(() => cursor.previousEvent(), "the lane did nothing before"),
      Home: () => this.#act("first"),
      End: () => this.#act("last"),
      F5: () => this.#act("run"),
      F8: () => this.#act("run"),
      "Shift+F5": () => bench.move(() => this.#run(-1)),
      "Shift+F8": () => bench.move(() => this.#run(-1)),
      F10: () => this.#act("over"),
      "Shift+F10": () => this.#act("backOver"),
      F11: () => this.#act("into"),
      "Shift+F11": () => this.#act("out"),
      n: () => this.#act("lane"),
      d: () => this.#act("divergence"),
      b: () => this.#breakpoint(),
      "[": () => this.#lane(-1),
      "]": () => this.#lane(1),
      "/": () => this.#search.focus(),
    };
    if (event.key === "B" && event.shiftKey) return () => this.#breaks.toggle();
    return keys[name];
  }

  #searchKey(event: KeyboardEvent): void {
    if (event.key === "Escape") {
      event.stopPropagation();
      this.#search.value = "";
      this.#root.focus();
    } else if (event.key === "Enter") {
      event.preventDefault();
      event.stopPropagation();
      const { value } = this.#search;
      this.bench.move(() => this.bench.cursor.search(value, event.shiftKey ? -1 : 1));
      if (value && !this.#says(value)) this.say(`no step says \u201c${value}\u201d`);
    }
  }

  #says(value: string): boolean {
    const step = this.bench.cursor.position;
    const op = this.bench.recording.statementOf(step)?.[10] ?? "";
    const said = `${this.bench.recording.textOf(step)} ${op} ${this.bench.recording.lineOf(step)}`;
    return said.toLowerCase().includes(value.trim().toLowerCase());
  }

  /** One button of the toolbar is in the tab order. */
  #roving(): void {
    const all = [...this.#buttons.values()];
    const active = all.find((b) => b === document.activeElement) ?? all.find((b) => b.tabIndex === 0) ?? this.#buttons.get("step");
    for (const button of all) button.tabIndex = button === active ? 0 : -1;
  }

  #toolbarKey(event: KeyboardEvent, bar: HTMLElement): void {
    const target = event.target as HTMLElement;
    if (!target.matches(".pw-btn") || !event.shiftKey) return;
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move) return;
    const all = [...bar.querySelectorAll<HTMLElement>(".pw-btn")];
    const next = all[(all.indexOf(target) + move + all.length) % all.length];
    event.preventDefault();
    event.stopPropagation();
    for (const button of all) button.tabIndex = button === next ? 0 : -1;
    next?.focus();
  }
}

/** Keys that do not reach the notebook: its letters are commands (cut, delete). It keeps those with modifiers. */
function isOurs(event: KeyboardEvent): boolean {
  if (event.altKey || event.metaKey || event.ctrlKey) return false;
  return event.key !== "Escape" && event.key !== "Tab" && !(event.key === "Enter" && event.shiftKey);
}

function chip(html: string, good: boolean | null, title = ""): string {
  const tone = good === null ? "" : good ? " pw-chip-ok" : " pw-chip-bad";
  return `<span class="pw-chip${tone}"${title ? ` title="${escaped(title)}"` : ""}>${html}</span>`;
}

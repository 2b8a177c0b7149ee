// The menu of breakpoints that are not lines: a variable, an operation, a queue, what is not finite, a value.
import type { Bench } from "../bench";
import { operations, operationStops, pipes, plainName, QUEUE_EVENTS, queueStops, valueStops, variableNames, variableStops, type Comparison, type QueueEvent } from "../breaks";
import type { Break } from "../cursor";
import { h } from "../dom";

const KINDS = {
  variable: "a variable is written",
  operation: "an operation is done",
  queue: "a queue changes",
  finite: "a NaN or Inf comes up",
  value: "a value gets",
} as const;
type Kind = keyof typeof KINDS;

export class BreakMenu {
  readonly element: HTMLElement;
  readonly button: HTMLButtonElement;
  readonly #panel: HTMLElement;
  readonly #kind: HTMLSelectElement;
  readonly #fields = h("div", { class: "pw-bkfields" });
  readonly #list = h("ul", { class: "pw-bklist" });
  readonly #count = h("span", { class: "pw-bkcount", hidden: true });
  #waiting = false;
  #drawn = "";

  constructor(readonly bench: Bench) {
    const kinds = (Object.keys(KINDS) as Kind[]).filter((kind) => kind !== "queue" || bench.payload.timeline.events.length);
    this.#kind = select("Break when", kinds.map((kind) => [kind, KINDS[kind]]));
    this.#kind.addEventListener("change", () => this.#makeFields());
    const add = h("button", { type: "submit", class: "pw-bkadd" }, "Add");
    const form = h("form", { class: "pw-bkform" }, h("label", { class: "pw-bkrow" }, h("span", {}, "Break when"), this.#kind), this.#fields, add);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#add();
    });
    const id = `${bench.prefix}-breaks`;
    this.#panel = h("div", { class: "pw-bkpanel", id, role: "dialog", "aria-label": "Breakpoints", hidden: true }, form, this.#list);
    this.button = h("button", { type: "button", class: "pw-bkopen", "aria-haspopup": "dialog", "aria-expanded": "false", "aria-controls": id, "aria-keyshortcuts": "Shift+B", title: "Break on a variable, an operation, a queue, a NaN or a value (Shift+B)" }, "break on\u2026", this.#count);
    this.button.addEventListener("click", () => this.toggle());
    this.#panel.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.toggle(false);
      this.button.focus();
    });
    this.element = h("span", { class: "pw-bk" }, this.button, this.#panel);
    this.#makeFields();
  }

  /** Opens or closes the menu; it takes the focus when it opens. */
  toggle(open = this.#panel.hidden): void {
    this.#panel.hidden = !open;
    this.button.setAttribute("aria-expanded", String(open));
    if (!open) return;
    this.#makeFields(); // for the tile that is shown now
    this.#kind.focus();
  }

  #makeFields(): void {
    const { recording } = this.bench;
    const names = (): HTMLElement => {
      const field = select("Variable", variableNames(recording).map((n) => [n, n]));
      const shown = this.bench.shownVariable();
      if (shown) field.value = plainName(shown.name);
      return labelled("variable", field);
    };
    const kind = this.#kind.value as Kind;
    const fields: Readonly<Record<Kind, () => HTMLElement[]>> = {
      variable: () => [names()],
      operation: () => [labelled("operation", select("Operation", operations(recording).map((o) => [o, o])))],
      queue: () => [
        labelled("event", select("Queue event", Object.keys(QUEUE_EVENTS).map((e) => [e, e === "blocked" ? "a lane has to wait" : e]))),
        labelled("pipe", select("Pipe", [["", "any pipe"], ...pipes(recording).map((p) => [p, p] as const)])),
      ],
      finite: () => [],
      value: () => [
        names(),
        labelled("is", select("Comparison", [["above", "above"], ["below", "below"], ["equal", "equal to"]])),
        labelled("number", h("input", { type: "number", step: "any", value: "0", class: "pw-bknumber", "aria-label": "Number" })),
      ],
    };
    this.#fields.replaceChildren(...fields[kind]());
  }

  #add(): void {
    const [first = "", second = "", third = ""] = [...this.#fields.querySelectorAll<HTMLSelectElement | HTMLInputElement>("select, input")].map((f) => f.value);
    const { recording } = this.bench;
    const kind = this.#kind.value as Kind;
    if (kind === "finite") return this.#addNonFinite();
    if (kind === "variable") return this.#set(`${first} is written`, variableStops(recording, first, this.bench.memories), { kind: "variable", name: first });
    if (kind === "operation") return this.#set(first, operationStops(recording, first), { kind: "op", op: first });
    if (kind === "queue") {
      const label = `${second || "any pipe"}: ${first}`;
      return this.#set(label, queueStops(recording, first as QueueEvent, second || null), { kind: "queue", event: first, ...(second ? { pipe: second } : {}) });
    }
    const limit = Number(third);
    if (third.trim() === "" || !Number.isFinite(limit)) return this.bench.say("the number is missing");
    const found = valueStops(recording, first, second as Comparison, limit, (key) => this.bench.tiles.statsOf(key), this.bench.memories);
    this.#set(`${first} ${second === "equal" ? "=" : second} ${third}`, found.steps, null);
    if (found.unknown) this.bench.say(`${found.unknown} steps are not looked at: their values have not been shown yet`);
  }

  #addNonFinite(): void {
    const { bench } = this;
    if (bench.nonFinite) return this.#set("a NaN or Inf comes up", new Set(bench.nonFinite), { kind: "non-finite" });
    if (!bench.source.askNonFinite) return bench.say("this page does not know where NaN come up: the run is too large");
    this.#waiting = true;
    bench.say("looking through the run\u2026");
    bench.source.askNonFinite();
  }

  /** Sets a breakpoint; `fields` are what the kernel's session calls it, null where it has no word for it. */
  #set(label: string, steps: ReadonlySet<number>, fields: { readonly kind: string; readonly [field: string]: string } | null): void {
    const { bench } = this;
    if (steps.size === 0) return bench.say(`no step: ${label}`);
    const found: Break = fields ? { label, steps, stop: { ...fields, label, steps: [...steps] } } : { label, steps };
    if (!bench.cursor.breaks.some((b) => b.label === label)) bench.cursor.addBreak(found);
    bench.changed(false);
    bench.say(`breakpoint set: ${label}, ${counted(steps.size)}`);
  }

  draw(): void {
    if (this.#waiting && this.bench.nonFinite) {
      this.#waiting = false;
      queueMicrotask(() => this.#addNonFinite());
    }
    const { breaks } = this.bench.cursor;
    this.#count.hidden = breaks.length === 0;
    this.#count.textContent = String(breaks.length);
    const state = breaks.map((b) => b.label).join("\n");
    if (state === this.#drawn) return;
    this.#drawn = state;
    const items = breaks.map((b, i) => {
      const remove = h("button", { type: "button", class: "pw-bkremove", "aria-label": `remove breakpoint: ${b.label}`, title: "remove" }, "\u2715");
      remove.addEventListener("click", () => {
        this.bench.cursor.removeBreak(i);
        this.bench.changed(false);
        this.#kind.focus();
      });
      return h("li", {}, h("span", { class: "pw-bkdot", "aria-hidden": "true" }), h("span", { class: "pw-mono" }, b.label), h("span", { class: "pw-dim" }, counted(b.steps.size)), remove);
    });
    this.#list.replaceChildren(...items);
  }
}

const counted = (n: number): string => `${n} step${n === 1 ? "" : "s"}`;

function select(label: string, choices: readonly (readonly [string, string])[]): HTMLSelectElement {
  return h("select", { class: "pw-select", "aria-label": label }, ...choices.map(([value, text]) => h("option", { value }, text)));
}

function labelled(label: string, field: HTMLElement): HTMLElement {
  return h("label", { class: "pw-bkrow" }, h("span", {}, label), field);
}

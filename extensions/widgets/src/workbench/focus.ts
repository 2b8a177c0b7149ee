// Which block and iteration of the focused lane is looked at; shown only where a run has several.
import type { Bench } from "./bench";
import { h } from "./dom";

const MOST = 200;

export class FocusControls {
  readonly element = h("span", { class: "pw-focus" });
  readonly #block: HTMLSelectElement;
  readonly #iteration: HTMLSelectElement;
  #state = "";

  constructor(readonly bench: Bench) {
    this.#block = this.#select("block", "Block");
    this.#iteration = this.#select("iteration", "Iteration");
    this.element.append(this.#block, this.#iteration);
  }

  #select(kind: "block" | "iteration", label: string): HTMLSelectElement {
    const select = h("select", { class: "pw-select", "aria-label": `${label} in focus`, title: `Look at one ${kind} only` });
    select.addEventListener("change", () => this.#chosen());
    return select;
  }

  #chosen(): void {
    const block = this.#block.value === "" ? null : Number(this.#block.value);
    const text = this.#iteration.value;
    const iteration = text === "" ? null : text.split(".").map(Number);
    const { cursor } = this.bench;
    this.bench.move(() => cursor.focusOn({ lane: cursor.focus.lane, block, task: null, iteration }));
  }

  draw(): void {
    const { cursor, recording } = this.bench;
    const { focus } = cursor;
    const blocks = new Set<number>();
    const turns = new Set<string>();
    for (const step of cursor.stepsIn({ lane: focus.lane, block: null, task: null, iteration: null })) {
      const block = recording.blockOf(step);
      if (block >= 0) blocks.add(block);
      if (focus.block === null || focus.block === block) {
        const iterations = recording.iterationsOf(step);
        if (iterations.length && turns.size < MOST) turns.add(iterations.join("."));
      }
    }
    const state = `${focus.lane}/${focus.block}/${focus.iteration?.join(".")}/${blocks.size}/${turns.size}`;
    if (state === this.#state) return;
    this.#state = state;
    this.#fill(this.#block, "any block", [...blocks].sort((a, b) => a - b).map(String), focus.block, "block");
    this.#fill(this.#iteration, "any iteration", [...turns], focus.iteration?.join(".") ?? null, "iteration");
  }

  #fill(select: HTMLSelectElement, any: string, values: readonly string[], chosen: string | number | null, word: string): void {
    select.hidden = values.length < 2;
    const option = (value: string, label: string): HTMLOptionElement => h("option", { value }, label);
    select.replaceChildren(option("", any), ...values.map((v) => option(v, `${word} ${v}`)));
    select.value = chosen === null ? "" : String(chosen);
  }
}

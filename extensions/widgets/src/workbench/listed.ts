// A list to choose from, with what is chosen beside it (the ARIA listbox pattern); items may stand in named groups.
import { escaped, h } from "./dom";
import type { View } from "./views/view";

export interface Item {
  readonly html: string;
  readonly group?: string;
  readonly hidden?: boolean;
}

export class Listed implements View {
  readonly element: HTMLElement;
  readonly list: HTMLElement;
  readonly side: HTMLElement;
  #options: HTMLElement[] = [];
  chosen: number;

  constructor(
    label: string,
    items: readonly Item[],
    body: HTMLElement,
    /** Shows what is chosen; `fresh` when it was not shown before. */
    readonly show: (index: number, fresh: boolean) => void,
    first = 0,
    above: HTMLElement | null = null,
  ) {
    this.chosen = first;
    this.list = h("div", { class: "pw-list pw-scroll", role: "listbox", "aria-label": label, tabindex: 0 });
    this.side = h("div", { class: "pw-side" }, above, this.list);
    this.element = h("div", { class: "pw-listing" }, this.side, body);
    this.fill(items);
    this.list.addEventListener("click", (event) => {
      const option = (event.target as HTMLElement).closest<HTMLElement>("[data-i]");
      if (option) this.choose(Number(option.dataset["i"]));
    });
    this.list.addEventListener("keydown", (event) => this.#key(event));
  }

  fill(items: readonly Item[]): void {
    let html = "";
    let group: string | undefined;
    items.forEach((item, i) => {
      if (item.group !== undefined && item.group !== group) {
        html += `${group === undefined ? "" : "</div>"}<div role="group" aria-label="${escaped(item.group)}"><div class="pw-group" aria-hidden="true">${escaped(item.group)}</div>`;
        group = item.group;
      }
      html += `<div role="option" data-i="${i}"${item.hidden ? " hidden" : ""}>${item.html}</div>`;
    });
    this.list.innerHTML = html + (group === undefined ? "" : "</div>");
    this.#options = [...this.list.querySelectorAll<HTMLElement>("[data-i]")];
  }

  #key(event: KeyboardEvent): void {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const seen = this.#options.filter((option) => !option.hidden).map((option) => Number(option.dataset["i"]));
    const at = seen.indexOf(this.chosen);
    const last = seen.length - 1;
    const moves: Readonly<Record<string, number>> = { ArrowDown: Math.min(last, at + 1), ArrowUp: Math.max(0, at - 1), Home: 0, End: last };
    const next = seen[moves[event.key] ?? -1];
    if (next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.choose(next);
  }

  choose(index: number): void {
    const fresh = index !== this.chosen;
    this.chosen = index;
    this.#mark();
    this.show(index, fresh);
  }

  #mark(): void {
    for (const option of this.#options) option.setAttribute("aria-selected", String(Number(option.dataset["i"]) === this.chosen));
    const option = this.#options[this.chosen];
    if (!option || !this.list.clientHeight) return;
    const { offsetTop } = option;
    if (offsetTop < this.list.scrollTop || offsetTop + 22 > this.list.scrollTop + this.list.clientHeight) {
      this.list.scrollTop = offsetTop - this.list.clientHeight / 2;
    }
  }

  draw(): void {
    this.#mark();
    this.show(this.chosen, false);
  }
}

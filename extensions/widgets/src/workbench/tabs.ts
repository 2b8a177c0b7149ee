// A tab list (the ARIA tabs pattern) or a group of choices (radios), with arrow keys.
import { h } from "./dom";

export interface Choice {
  readonly key: string;
  readonly label: string;
}

abstract class Choices {
  readonly element: HTMLElement;
  readonly buttons: readonly HTMLButtonElement[];

  constructor(
    role: string,
    label: string,
    readonly choices: readonly Choice[],
    className: string,
    make: (choice: Choice) => HTMLButtonElement,
    readonly pick: (key: string) => void,
  ) {
    this.buttons = choices.map(make);
    this.element = h("div", { class: className, role, "aria-label": label }, ...this.buttons);
    this.buttons.forEach((button, i) => button.addEventListener("click", () => this.#choose(i)));
    this.element.addEventListener("keydown", (event) => this.#key(event));
  }

  abstract select(key: string): void;

  #choose(index: number): void {
    const choice = this.choices[index];
    if (choice) this.pick(choice.key);
  }

  #key(event: KeyboardEvent): void {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const now = this.buttons.indexOf(document.activeElement as HTMLButtonElement);
    const last = this.buttons.length - 1;
    const moves: Readonly<Record<string, number>> = {
      ArrowRight: now >= last ? 0 : now + 1,
      ArrowLeft: now <= 0 ? last : now - 1,
      Home: 0,
      End: last,
    };
    const next = now < 0 ? undefined : moves[event.key];
    if (next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.#choose(next);
    this.buttons[next]?.focus();
  }
}

/** Tabs; each names the panel `<prefix>-<key>` unless all share `<prefix>-panel`. */
export class TabList extends Choices {
  constructor(label: string, choices: readonly Choice[], prefix: string, pick: (key: string) => void, own = false) {
    const make = (choice: Choice): HTMLButtonElement =>
      h("button", {
        type: "button",
        role: "tab",
        class: "pw-tab",
        id: `${prefix}-tab-${choice.key}`,
        "aria-controls": own ? `${prefix}-${choice.key}` : `${prefix}-panel`,
      }, choice.label);
    super("tablist", label, choices, "pw-tablist", make, pick);
  }

  override select(key: string): void {
    this.choices.forEach((choice, i) => {
      const on = choice.key === key;
      this.buttons[i]?.setAttribute("aria-selected", String(on));
      if (this.buttons[i]) (this.buttons[i] as HTMLButtonElement).tabIndex = on ? 0 : -1;
    });
  }
}

/** One of several, as a segmented control. */
export class Segments extends Choices {
  constructor(label: string, choices: readonly Choice[], pick: (key: string) => void) {
    const make = (choice: Choice): HTMLButtonElement => h("button", { type: "button", role: "radio" }, choice.label);
    super("radiogroup", label, choices, "pw-seg", make, pick);
  }

  override select(key: string): void {
    this.choices.forEach((choice, i) => {
      const on = choice.key === key;
      this.buttons[i]?.setAttribute("aria-checked", String(on));
      if (this.buttons[i]) (this.buttons[i] as HTMLButtonElement).tabIndex = on ? 0 : -1;
    });
  }
}

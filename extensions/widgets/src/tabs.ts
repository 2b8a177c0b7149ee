// <pl-tabs>: its child panels behind a tab list (the ARIA tabs pattern). Without scripts the panels stand one below another.

let instances = 0;

export class PlTabs extends HTMLElement {
  #tabs: HTMLButtonElement[] = [];
  #panels: HTMLElement[] = [];

  connectedCallback(): void {
    if (this.#tabs.length > 0) return;
    const prefix = `pl-tabs-${instances++}`;
    this.#panels = [...this.children].filter((c): c is HTMLElement => c instanceof HTMLElement && c.matches("section"));
    const list = document.createElement("div");
    list.className = "pl-tablist";
    list.setAttribute("role", "tablist");
    list.setAttribute("aria-label", this.dataset["label"] ?? "Views");
    this.#tabs = this.#panels.map((panel, index) => this.#tab(panel, `${prefix}-${index}`));
    list.append(...this.#tabs);
    list.addEventListener("keydown", (event) => this.#key(event));
    this.prepend(list);
    this.classList.add("pl-live");
    this.#select(0);
  }

  #tab(panel: HTMLElement, id: string): HTMLButtonElement {
    const tab = document.createElement("button");
    tab.type = "button";
    tab.className = "pl-tab";
    tab.id = `${id}-tab`;
    tab.textContent = panel.dataset["title"] ?? "";
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", `${id}-panel`);
    panel.id = `${id}-panel`;
    panel.tabIndex = 0;
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", tab.id);
    tab.addEventListener("click", () => this.#select(this.#tabs.indexOf(tab)));
    return tab;
  }

  #select(chosen: number): void {
    this.#tabs.forEach((tab, index) => {
      tab.setAttribute("aria-selected", String(index === chosen));
      tab.tabIndex = index === chosen ? 0 : -1;
    });
    this.#panels.forEach((panel, index) => {
      panel.hidden = index !== chosen;
    });
  }

  #key(event: KeyboardEvent): void {
    const now = this.#tabs.findIndex((tab) => tab.getAttribute("aria-selected") === "true");
    const last = this.#tabs.length - 1;
    const steps: Record<string, number> = {
      ArrowRight: now === last ? 0 : now + 1,
      ArrowLeft: now === 0 ? last : now - 1,
      Home: 0,
      End: last,
    };
    const next = steps[event.key];
    if (next === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    this.#select(next);
    this.#tabs[next]?.focus();
  }
}

// <pl-pair>: listings side by side; pointing at a row lights up the rows that belong to it in the other one.

export class PlPair extends HTMLElement {
  #watch: IntersectionObserver | undefined;

  connectedCallback(): void {
    this.addEventListener("pointerover", (event) => this.#light(event.target));
    this.addEventListener("focusin", (event) => this.#light(event.target));
    this.addEventListener("pointerleave", () => this.#clear());
    // A listing in a hidden tab has no size, so it is scrolled to its first row of interest when it is first seen.
    this.#watch = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      this.#watch?.disconnect();
      for (const box of this.querySelectorAll<HTMLElement>(".pl-code")) this.#start(box);
    });
    this.#watch.observe(this);
  }

  disconnectedCallback(): void {
    this.#watch?.disconnect();
  }

  #start(box: HTMLElement): void {
    const row = box.querySelector<HTMLElement>(`[data-number="${Number(box.dataset["start"] ?? 1)}"]`);
    if (row) box.scrollTop = row.offsetTop - 4;
  }

  #light(target: EventTarget | null): void {
    const row = target instanceof Element ? target.closest<HTMLElement>("[data-link]") : null;
    this.#clear();
    const link = row?.dataset["link"];
    if (!row || !link) return;
    for (const other of this.querySelectorAll<HTMLElement>(`[data-link="${CSS.escape(link)}"]`)) {
      other.classList.add("pl-lit");
      if (other.parentElement !== row.parentElement) this.#reveal(other);
    }
  }

  /** Scrolls the other listing to the row, never the page. */
  #reveal(row: HTMLElement): void {
    const box = row.closest<HTMLElement>(".pl-code");
    if (!box) return;
    const above = row.offsetTop;
    if (above < box.scrollTop || above + row.offsetHeight > box.scrollTop + box.clientHeight) {
      box.scrollTop = above - box.clientHeight / 3;
    }
  }

  #clear(): void {
    for (const row of this.querySelectorAll(".pl-lit")) row.classList.remove("pl-lit");
  }
}

// A run while it goes on: how far it is, where each lane stands, what is in the queues; pause, go on, end.
import { escaped, h } from "./dom";
import { laneTag, pipeLabel } from "./lanes";

export interface LiveLane {
  readonly name: string;
  readonly block: number | null;
  readonly status: string;
  readonly line: string;
  readonly text: string;
}

export interface LiveQueue {
  readonly pipe: string;
  readonly block: number | null;
  readonly filled: number;
  readonly depth: number | null;
  readonly slots: readonly string[];
  readonly waiters: readonly string[];
}

export interface LiveState {
  readonly title: string;
  readonly state: "running" | "paused" | "ending" | "failed" | "finished";
  readonly steps: number;
  readonly bytes: number;
  readonly seconds: number;
  readonly lane: string;
  readonly message: string;
  readonly lanes: readonly LiveLane[];
  /** Lanes that are not listed. */
  readonly more: number;
  readonly queues: readonly LiveQueue[];
}

export type LiveAsk = "pause" | "resume" | "interrupt";

const WORDS: Readonly<Record<LiveState["state"], string>> = {
  running: "running",
  paused: "paused",
  ending: "stopping",
  failed: "failed",
  finished: "finished",
};
/** Seconds between two states that a screen reader is told of. */
const SPOKEN_EVERY = 5;

export class LivePanel {
  readonly #title = h("span", { class: "pw-name" });
  readonly #state = h("span", { class: "pw-chip" });
  readonly #progress = h("span", { class: "pw-livefacts pw-num" });
  readonly #pause = h("button", { type: "button", class: "pw-livebtn", "data-live": "pause" }, "Pause");
  readonly #end = h("button", { type: "button", class: "pw-livebtn", "data-live": "interrupt", title: "End the run here; what was recorded is kept" }, "Interrupt");
  readonly #message = h("p", { class: "pw-livemessage", hidden: true });
  readonly #lanes = h("div", { class: "pw-livelanes" });
  readonly #queues = h("div", { class: "pw-pipes pw-livequeues", role: "region", "aria-label": "Queues" });
  readonly #spoken = h("div", { class: "pw-sr", "aria-live": "polite" });
  readonly #moves = h("div", { class: "pw-liverun", role: "progressbar", "aria-label": "The run goes on" }, h("i"));
  #said = "";
  #saidAt = -SPOKEN_EVERY;
  #now: LiveState | null = null;

  constructor(root: HTMLElement, send: (ask: LiveAsk) => void) {
    const head = h("header", { class: "pw-head" }, this.#title, this.#state, this.#progress, h("span", { class: "pw-grow" }), this.#pause, this.#end);
    root.classList.add("pw-root", "pw-liveroot");
    root.setAttribute("role", "group");
    root.replaceChildren(h("div", { class: "pw-live" }, head, this.#moves, this.#message, this.#lanes, this.#queues), this.#spoken);
    this.#pause.addEventListener("click", () => send(this.#now?.state === "paused" ? "resume" : "pause"));
    this.#end.addEventListener("click", () => send("interrupt"));
  }

  update(now: LiveState): void {
    if (!now.state) return;
    this.#now = now;
    const over = now.state === "failed" || now.state === "finished";
    this.#title.textContent = now.title;
    this.#state.textContent = WORDS[now.state];
    this.#state.className = `pw-chip${now.state === "failed" ? " pw-chip-bad" : ""}`;
    this.#progress.textContent = `${now.steps.toLocaleString("en")} steps, ${(now.bytes / 2 ** 20).toFixed(1)} MiB kept, ${now.seconds.toFixed(1)} s${now.lane && !over ? `, ${now.lane} runs` : ""}`;
    this.#pause.textContent = now.state === "paused" ? "Resume" : "Pause";
    this.#pause.disabled = over || now.state === "ending";
    this.#end.disabled = over || now.state === "ending";
    this.#moves.hidden = over;
    this.#moves.classList.toggle("pw-still", now.state !== "running");
    this.#message.hidden = !now.message;
    this.#message.textContent = now.message;
    this.#drawLanes(now.lanes, now.more);
    this.#queues.innerHTML = now.queues.map(queue).join("");
    this.#speak(now);
  }

  #drawLanes(lanes: readonly LiveLane[], more: number): void {
    const rows = lanes
      .map((lane) => `<tr data-lane="${escaped(lane.name)}"><th scope="row">${laneTag(escaped(lane.name))}${lane.block === null ? "" : ` <span class="pw-dim">block ${lane.block}</span>`}</th><td class="${lane.status.startsWith("waits") ? "pw-wrong" : ""}">${escaped(lane.status)}</td><td>${escaped(lane.line)}</td><td class="pw-mono">${escaped(lane.text)}</td></tr>`)
      .join("");
    this.#lanes.innerHTML = rows
      ? `${more ? `<p class="pw-empty">${more} more lanes are not shown</p>` : ""}<table class="pw-tbl"><caption class="pw-sr">Lanes</caption><thead><tr><th scope="col">lane</th><th scope="col">state</th><th scope="col">line</th><th scope="col">statement</th></tr></thead><tbody>${rows}</tbody></table>`
      : '<p class="pw-empty">No lane has started yet.</p>';
  }

  /** Tells a screen reader of each change of state, and of progress now and then. */
  #speak(now: LiveState): void {
    if (now.state === this.#said && now.seconds - this.#saidAt < SPOKEN_EVERY) return;
    this.#said = now.state;
    this.#saidAt = now.seconds;
    this.#spoken.textContent = `${WORDS[now.state]}, ${now.steps} steps`;
  }
}

function queue(q: LiveQueue): string {
  const filled = q.depth === null ? `${q.filled} filled` : `${q.filled} of ${q.depth}`;
  const slots = q.slots.map((slot) => `<div class="pw-slot pw-ready-slot">${escaped(slot)}</div>`).join("");
  const free = q.depth === null ? 0 : Math.max(0, q.depth - q.filled);
  const rest = free ? `<div class="pw-slot pw-free">${free} free</div>` : "";
  const waits = q.waiters.map((w) => `<div class="pw-waiter pw-on"><span>\u2759\u2759 ${escaped(w)}</span></div>`).join("");
  return `<div class="pw-pipe" data-pipe="${escaped(q.pipe)}"><h4>${escaped(pipeLabel(q.pipe))}${q.block === null ? "" : ` block ${q.block}`}<em>${filled}</em></h4><div class="pw-slots pw-live-slots">${slots}${rest || (q.slots.length ? "" : '<div class="pw-slot pw-free">empty</div>')}</div>${waits}</div>`;
}

// Lays out DOT off the page's thread: Graphviz runs in a worker that all graphs of a page share, so a large graph never
// holds up the page. Where a host forbids workers it runs in the page.
import type { Viz } from "@viz-js/viz";

/** What a worker is told, besides Graphviz itself, which stands before it. */
const ANSWER = `
const viz = globalThis.PyptoLabViz.instance();
onmessage = async ({ data: [id, dot] }) => {
  try {
    postMessage([id, (await viz).renderString(dot, { format: "svg" }), null]);
  } catch (error) {
    postMessage([id, null, String(error)]);
  }
};
`;

interface Pending {
  readonly dot: string;
  readonly done: (svg: string) => void;
  readonly failed: (error: Error) => void;
}

/** Makes a worker of a script's text; a place of its own so that tests can put another there. */
export type MakeWorker = (text: string) => Worker;

export function workerOf(text: string): Worker {
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  try {
    return new Worker(address);
  } finally {
    setTimeout(() => URL.revokeObjectURL(address), 60_000); // a worker may fetch it later
  }
}

export class Layout {
  readonly #pending = new Map<number, Pending>();
  #worker: Promise<Worker | null> | undefined;
  #text = "";
  #here: Promise<Viz> | undefined;
  #asked = 0;

  constructor(readonly make: MakeWorker = workerOf) {}

  /** DOT as an SVG document. `library` brings the text of Graphviz's script, if it is not here yet. Rejects where
   * Graphviz refuses the DOT. */
  async svg(dot: string, library: () => Promise<string>): Promise<string> {
    this.#worker ??= this.#start(library).catch((error: unknown) => {
      this.#worker = undefined; // another graph may be able to bring it
      throw error;
    });
    const worker = await this.#worker;
    if (!worker) return this.#inPage(dot);
    return new Promise((done, failed) => {
      const id = this.#asked++;
      this.#pending.set(id, { dot, done, failed });
      worker.postMessage([id, dot]);
    });
  }

  async #start(library: () => Promise<string>): Promise<Worker | null> {
    const text = (this.#text = await library());
    try {
      const worker = this.make(text + ANSWER);
      worker.onmessage = ({ data }: MessageEvent<[number, string | null, string | null]>): void => this.#answered(...data);
      worker.onerror = (event): void => {
        event.preventDefault();
        this.#giveUp(worker);
      };
      return worker;
    } catch {
      return null;
    }
  }

  #answered(id: number, svg: string | null, error: string | null): void {
    const asked = this.#pending.get(id);
    this.#pending.delete(id);
    if (svg !== null) asked?.done(svg);
    else asked?.failed(new Error(error ?? "Graphviz gave no picture"));
  }

  /** The host let the worker be made, but not run: what it was asked is done in the page. */
  #giveUp(worker: Worker): void {
    worker.terminate();
    this.#worker = Promise.resolve(null);
    for (const { dot, done, failed } of this.#pending.values()) this.#inPage(dot).then(done, failed);
    this.#pending.clear();
  }

  async #inPage(dot: string): Promise<string> {
    this.#here ??= this.#loadHere();
    return (await this.#here).renderString(dot, { format: "svg" });
  }

  async #loadHere(): Promise<Viz> {
    if (!globalThis.PyptoLabViz) {
      const address = URL.createObjectURL(new Blob([this.#text], { type: "text/javascript" }));
      try {
        await import(/* @vite-ignore */ address);
      } finally {
        URL.revokeObjectURL(address);
      }
    }
    const library = globalThis.PyptoLabViz;
    if (!library) throw new Error("the Graphviz library is not loaded");
    return library.instance();
  }
}

/** The layout that all graphs of this page share. */
export const sharedLayout = (): Layout => (globalThis.PyptoLabLayout ??= new Layout());

// What Python sends to draw a graph (`pypto_lab/view/draw.py`, payload).
import type { Viz } from "@viz-js/viz";
import type { Layout } from "./layout";

export interface GraphPayload {
  readonly name: string;
  readonly dot: string;
  readonly text: string;
  readonly hover: Readonly<Record<string, string>>;
  readonly lines: Readonly<Record<string, number>>;
  readonly titles: Readonly<Record<string, string>>;
  readonly flows: readonly (readonly [source: string, target: string, name: string])[];
}

declare global {
  var PyptoLabViz: { readonly instance: () => Promise<Viz> } | undefined;
  var PyptoLabLayout: Layout | undefined;
}

// Graphviz as WebAssembly, under one global name: a page, a widget and Node load the same file.
import { instance } from "@viz-js/viz";

globalThis.PyptoLabViz ??= { instance };

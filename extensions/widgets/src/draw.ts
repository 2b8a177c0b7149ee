// Run by Node: DOT on standard input, SVG on standard output.
import "./viz.js";
import { readFileSync } from "node:fs";

const viz = await globalThis.PyptoLabViz!.instance();
process.stdout.write(viz.renderString(readFileSync(0, "utf8"), { format: "svg" }));

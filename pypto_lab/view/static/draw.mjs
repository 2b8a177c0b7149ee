// src/draw.ts
import "./viz.js";
import { readFileSync } from "node:fs";
var viz = await globalThis.PyptoLabViz.instance();
process.stdout.write(viz.renderString(readFileSync(0, "utf8"), { format: "svg" }));

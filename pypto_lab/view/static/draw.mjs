// src/draw.ts
import { readFileSync } from "node:fs";
import { runInThisContext } from "node:vm";
import { gunzipSync } from "node:zlib";
runInThisContext(gunzipSync(readFileSync(new URL("./viz.js.gz", import.meta.url))).toString());
var viz = await globalThis.PyptoLabViz.instance();
process.stdout.write(viz.renderString(readFileSync(0, "utf8"), { format: "svg" }));

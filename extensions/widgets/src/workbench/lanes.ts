// A lane keeps one identity everywhere: a class for its colour and shape, and a letter.

const KNOWN: Readonly<Record<string, readonly [className: string, letter: string]>> = {
  AIC: ["pw-aic", "C"],
  AIV0: ["pw-aiv0", "0"],
  AIV1: ["pw-aiv1", "1"],
  AIV: ["pw-aiv0", "V"],
  host: ["pw-host", "H"],
};

export function laneClass(name: string): string {
  return KNOWN[name]?.[0] ?? "pw-other";
}

export function laneLetter(name: string): string {
  return KNOWN[name]?.[1] ?? name.slice(-1).toUpperCase();
}

export const laneMark = (name: string): string => `<i class="pw-mark ${laneClass(name)}"></i>`;

export const laneTag = (name: string): string =>
  `<span class="pw-tag ${laneClass(name)}">${laneMark(name)}${name}</span>`;

/** A pipe's name for people: `C2V[0]#0` is C→V[0]. */
export function pipeLabel(pipe: string): string {
  return pipe.replace(/^C2V/, "C\u2192V").replace(/^V2C/, "V\u2192C").replace(/#0$/, "");
}

/** From which lane a pipe goes to which, where its name says so. */
export function pipeEnds(pipe: string): string {
  const found = /^(C2V|V2C)\[(\d+)\]/.exec(pipe);
  if (!found) return "";
  const vector = `AIV${found[2]}`;
  return found[1] === "C2V" ? `AIC \u2192 ${vector}` : `${vector} \u2192 AIC`;
}

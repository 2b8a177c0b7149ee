// Small helpers for elements, SVG text and numbers.

type Child = Node | string | null | undefined | false;
type Attributes = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** An element with attributes (false, null and undefined are left out) and children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child || child === "") element.append(child);
  return element;
}

export const escaped = (text: string): string =>
  text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c] ?? c);

export const text = (x: number, y: number, content: string | number, more = ""): string =>
  `<text x="${round(x)}" y="${round(y)}" ${more}>${escaped(String(content))}</text>`;

export const rect = (x: number, y: number, width: number, height: number, more: string): string =>
  `<rect x="${round(x)}" y="${round(y)}" width="${round(Math.max(0, width))}" height="${round(Math.max(0, height))}" ${more}/>`;

const round = (x: number): number => Math.round(x * 100) / 100;

/** A number in four digits for people. */
export function shown(value: number | null | undefined): string {
  if (value === null || value === undefined) return "";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "Inf" : "\u2212Inf";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value).replace("-", "\u2212");
  const size = Math.abs(value);
  const plain = size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  return plain.replace(/-/g, "\u2212");
}

export const dims = (shape: readonly number[]): string => `[${shape.join(", ")}]`;
export const times = (shape: readonly number[]): string => (shape.length ? shape.join("\u00d7") : "scalar");

export function icon(paths: string): string {
  return (
    '<svg viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linejoin="round" ' +
    `stroke-linecap="round" aria-hidden="true">${paths}</svg>`
  );
}

let instances = 0;

/** A prefix for the ids of one instance. */
export const newPrefix = (): string => `pw${++instances}`;

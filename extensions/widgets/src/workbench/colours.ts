// The diverging colours of heat maps, read from the theme's variables; mixed in oklab, symmetric about zero.

export interface Palette {
  /** From most negative to most positive; the middle one is zero. */
  readonly steps: readonly (readonly [number, number, number])[];
  readonly nan: readonly [number, number, number];
}

const HALF = 16;

export function readPalette(root: HTMLElement): Palette {
  const probe = document.createElement("i");
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  probe.style.setProperty("forced-color-adjust", "none"); // forced colours would paint every cell as text
  root.append(probe);
  const read = (colour: string): readonly [number, number, number] => {
    if (!pen) return [128, 128, 128];
    probe.style.color = colour;
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = getComputedStyle(probe).color;
    pen.fillRect(0, 0, 1, 1);
    const [r = 0, g = 0, b = 0] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b];
  };
  const steps = Array.from({ length: 2 * HALF + 1 }, (_, k) => {
    const share = (k - HALF) / HALF;
    const end = share < 0 ? "neg" : "pos";
    return read(`color-mix(in oklab, var(--pw-${end}) ${Math.abs(share) * 100}%, var(--pw-zero))`);
  });
  const palette = { steps, nan: read("var(--pw-ink0)") };
  probe.remove();
  return palette;
}

/** The index of a value's colour; `reach` is the size that gets the strongest. */
export function shadeOf(value: number, reach: number): number {
  if (!(reach > 0) || value === 0) return HALF;
  const share = Math.min(1, Math.abs(value) / reach) ** 0.7;
  return HALF + Math.round(HALF * (value < 0 ? -share : share));
}

/** Paints numbers cell by cell; cells for which `skip` holds stay clear. */
export function paint(
  canvas: HTMLCanvasElement,
  palette: Palette,
  rows: number,
  columns: number,
  data: ArrayLike<number>,
  reach: number,
  skip: (row: number, column: number) => boolean,
): void {
  canvas.width = Math.max(1, columns);
  canvas.height = Math.max(1, rows);
  const pen = canvas.getContext("2d");
  if (!pen || rows === 0 || columns === 0) return;
  const image = pen.createImageData(columns, rows);
  for (let row = 0, at = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++, at++) {
      if (skip(row, column)) continue;
      const value = data[at] ?? 0;
      const finite = Number.isFinite(value);
      const colour = finite ? palette.steps[shadeOf(value, reach)] : palette.nan;
      image.data.set([...(colour ?? palette.nan), 255], 4 * at);
    }
  }
  pen.putImageData(image, 0, 0);
}

/** The hatch for what is invalid, and the colour scale, as SVG definitions. */
export const definitions = (prefix: string): string =>
  `<defs><pattern id="${prefix}-hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
  '<rect width="6" height="6" fill="var(--pw-sunk)"/><path d="M0 0V6" stroke="var(--pw-hatch)" stroke-width="1.5"/></pattern>' +
  `<linearGradient id="${prefix}-scale" x1="0" x2="0" y1="0" y2="1">` +
  [0, 0.25, 0.5, 0.75, 1]
    .map((o) => {
      const share = Math.abs(1 - 2 * o) ** 0.7 * 100;
      const colour = `color-mix(in oklab, var(--pw-${o < 0.5 ? "pos" : "neg"}) ${share}%, var(--pw-zero))`;
      return `<stop offset="${o}" stop-color="${colour}"/>`;
    })
    .join("") +
  "</linearGradient></defs>";

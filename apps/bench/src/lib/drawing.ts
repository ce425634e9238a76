import type { Column, Curve, Row, Trace } from "./table.ts";

const width = 860;
const left = 260;
const right = 90;
const font = `font-family="system-ui, sans-serif" font-size="13"`;
const colours = ["#0b6e99", "#d9730d", "#0f7b6c", "#ad1a72", "#6940a5", "#9f6b53"];

/** Bars of one column: the median as a bar, the range as a thin line. Sluice's rows stand out. */
export function drawBars(title: string, column: Column, rows: readonly Row[]): string {
  const shown = rows.filter((row) => row.cells[column.key] !== undefined);
  const most = Math.max(...shown.map((row) => row.cells[column.key]!.max), Number.MIN_VALUE);
  const scale = (value: number): number => (value / most) * (width - left - right);
  const bars = shown.map((row, index) => {
    const { median, min, max } = row.cells[column.key]!;
    const y = 44 + index * 28;
    const colour = row.name.startsWith("Sluice") ? colours[0] : "#9aa5b1";
    return [
      `<text x="${left - 10}" y="${y + 14}" text-anchor="end">${escape(row.name)}</text>`,
      `<rect x="${left}" y="${y}" width="${round(scale(median))}" height="20" fill="${colour}"/>`,
      line(left + scale(min), y + 10, left + scale(max), y + 10),
      `<text x="${round(left + scale(max) + 6)}" y="${y + 14}">${median.toFixed(column.digits)}</text>`,
    ].join("\n");
  });
  return svg(`${title}: ${column.title}`, 44 + shown.length * 28 + 12, bars.join("\n"));
}

/** Lines over time, in MiB. */
export function drawTraces(title: string, traces: readonly Trace[]): string {
  const points = traces.flatMap((trace) => trace.points);
  const lastSecond = Math.max(...points.map(([seconds]) => seconds), 1);
  const most = Math.max(...points.map(([, mib]) => mib), 1) * 1.05;
  return drawLines(`${title}, MiB resident`, traces, {
    x: (seconds) => seconds / lastSecond,
    y: (mib) => mib / most,
    levels: [0, 0.25, 0.5, 0.75, 1].map((part) => [part, (most * part).toFixed(0)]),
    ticks: [[1, `${lastSecond.toFixed(1)} s`]],
  });
}

/** Lines over counts, both axes by factors of ten. */
export function drawCurve(title: string, curve: Curve): string {
  const points = curve.lines.flatMap((one) => one.points);
  const lastCount = Math.max(...points.map(([count]) => decade(count)), 1);
  const values = points.map(([, value]) => decade(value));
  const [low, high] = [Math.floor(Math.min(...values, 0)), Math.ceil(Math.max(...values, 1))];
  const x = (count: number): number => decade(count) / lastCount;
  const levels = Array.from({ length: high - low + 1 }, (_, n): Mark => {
    return [n / (high - low), String(10 ** (low + n))];
  });
  return drawLines(`${title}: ${curve.title}`, curve.lines, {
    x,
    y: (value) => (decade(value) - low) / (high - low),
    levels,
    ticks: [...new Set(points.map(([count]) => count))].map((count) => [x(count), `${count}`]),
  });
}

/** A place on an axis, from 0 to 1, and what is written there. */
type Mark = readonly [place: number, text: string];

/** Both axes of a plot: where a value stands on them, from 0 to 1, and their marks. */
interface Axes {
  readonly x: (value: number) => number;
  readonly y: (value: number) => number;
  readonly levels: readonly Mark[];
  readonly ticks: readonly Mark[];
}

function drawLines(title: string, lines: readonly Trace[], axes: Axes): string {
  const plot = { x: 70, y: 44, width: width - 70 - 20, height: 260 };
  const x = (place: number): number => plot.x + place * plot.width;
  const y = (place: number): number => plot.y + plot.height - place * plot.height;
  const foot = plot.y + plot.height + 20;
  const grid = axes.levels.map(
    ([place, text]) =>
      line(plot.x, y(place), plot.x + plot.width, y(place), "#dde1e6") +
      `<text x="${plot.x - 8}" y="${round(y(place) + 4)}" text-anchor="end">${text}</text>`,
  );
  const ticks = axes.ticks.map(
    ([place, text]) =>
      `<text x="${round(x(place))}" y="${foot}" text-anchor="middle">${text}</text>`,
  );
  const drawn = lines.map(({ name, points }, index) => {
    const colour = colours[index % colours.length];
    const path = points.map(([at, value]) => `${round(x(axes.x(at)))},${round(y(axes.y(value)))}`);
    const legendY = foot + 26 + index * 20;
    return (
      `<polyline points="${path.join(" ")}" fill="none" stroke="${colour}" stroke-width="1.5"/>` +
      `<rect x="${plot.x}" y="${legendY - 10}" width="12" height="12" fill="${colour}"/>` +
      `<text x="${plot.x + 20}" y="${legendY}">${escape(name)}</text>`
    );
  });
  return svg(title, foot + 26 + lines.length * 20, [...grid, ...ticks, ...drawn].join("\n"));
}

function svg(title: string, height: number, body: string): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" ${font}>
<rect width="100%" height="100%" fill="white"/>
<text x="12" y="24" font-size="16" font-weight="600">${escape(title)}</text>
${body}
</svg>
`;
}

function line(x1: number, y1: number, x2: number, y2: number, colour = "#1f2933"): string {
  return `<line x1="${round(x1)}" y1="${round(y1)}" x2="${round(x2)}" y2="${round(y2)}" stroke="${colour}"/>`;
}

const decade = (value: number): number => Math.log10(Math.max(value, 0.01));

const round = (value: number): string => value.toFixed(1);

const escape = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

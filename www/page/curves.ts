// The curves of a run: its loss against the losses of one who knows nothing and of one who knows word frequencies, and
// the shares it gets right. Pointer and arrow keys read values.
import uPlot from "uplot";
import { find } from "./dom.js";
import { integer, percent } from "./format.js";
import { type Series, changes, history } from "./history.js";

interface Colors {
  readonly ink: string;
  readonly muted: string;
  readonly rule: string;
  readonly accent: string;
}

/** uPlot paints on a canvas, which knows no custom properties. */
function readColors(): Colors {
  const probe = document.createElement("span");
  document.body.append(probe);
  const read = (name: string): string => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const colors = { ink: read("ink"), muted: read("muted"), rule: read("rule"), accent: read("accent") };
  probe.remove();
  return colors;
}

interface Curve {
  readonly label: string;
  readonly dash?: readonly number[];
  readonly secondary?: boolean;
  values(): Series;
}

const DASHED = [6, 4];
const DOTTED = [2, 3];

interface Chart {
  readonly host: HTMLElement;
  readonly label: string;
  readonly curves: readonly Curve[];
  readonly low: number;
  readonly high: number | undefined;
  format(value: number): string;
}

/** Upper end of an empty frame: near ln V of most vocabularies. */
const EMPTY_HIGH = 8;
const HOW_TO_READ = "Point at a curve, or choose it and press the arrow keys, to read a step.";

const constant = (value: number | undefined): Series => history.value.steps.map(() => value ?? null);

/** 50 %, where next sentences are guessed at all. */
const chance = (): Series => history.value.nextSentenceAccuracy.map((value) => (value === null ? null : 0.5));

const CHARTS: readonly Chart[] = [
  {
    host: find("loss-curve"),
    label: "Loss by step",
    low: 0,
    high: undefined,
    format: (value) => value.toFixed(2),
    curves: [
      { label: "loss", values: () => history.value.loss },
      { label: "word frequencies only", dash: DASHED, values: () => constant(history.value.unigramLoss) },
      { label: "all words alike (ln V)", dash: DOTTED, values: () => constant(history.value.uniformLoss) },
    ],
  },
  {
    host: find("accuracy-curve"),
    label: "Share guessed right by step",
    low: 0,
    high: 1,
    format: (value) => percent(value),
    curves: [
      { label: "hidden words right", values: () => history.value.maskedLmAccuracy },
      { label: "next sentences right", secondary: true, values: () => history.value.nextSentenceAccuracy },
      { label: "next sentences by chance", dash: DASHED, values: chance },
    ],
  },
];

export function curves(): void {
  let plots: uPlot[] = [];
  const draw = (): void => {
    for (const { host } of CHARTS) host.ariaValueMax = String(history.value.steps.at(-1) ?? 0);
    for (const [i, plot] of plots.entries()) plot.setData(dataOf(CHARTS[i]!));
  };
  /** Colours belong to a plot for good, so another theme takes other plots. */
  const rebuild = (): void => {
    const colors = readColors();
    for (const plot of plots) plot.destroy();
    plots = CHARTS.map((chart) => build(chart, colors));
  };
  rebuild();
  find("reading").textContent = HOW_TO_READ;
  document.addEventListener("themechange", rebuild);
  new ResizeObserver(() => {
    for (const [i, plot] of plots.entries()) plot.setSize(sizeOf(CHARTS[i]!.host));
  }).observe(CHARTS[0]!.host);

  let asked = false;
  const drawSoon = (): void => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
  history.watch(drawSoon);
  changes.watch(drawSoon);
  for (const [i, chart] of CHARTS.entries()) readWithKeys(chart, () => plots[i]!);
}

const sizeOf = (host: HTMLElement) => ({ width: host.clientWidth, height: host.clientHeight });

/** Without points there is an empty frame, so that nothing moves when they come. */
function dataOf({ curves }: Chart): uPlot.AlignedData {
  if (history.value.steps.length === 0) return [[0, 1], ...curves.map(() => [null, null])];
  return [history.value.steps, ...curves.map((curve) => curve.values())];
}

function build(chart: Chart, colors: Colors): uPlot {
  const font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const axis = { stroke: colors.muted, font, grid: { stroke: colors.rule, width: 1 }, ticks: { show: false } };
  return new uPlot(
    {
      ...sizeOf(chart.host),
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, sync: { key: "steps" }, points: { size: 7 } },
      scales: {
        x: { time: false },
        y: { range: (_, __, max) => [chart.low, chart.high ?? Math.max(1, Math.ceil(max ?? EMPTY_HIGH))] },
      },
      axes: [
        { ...axis, size: 24, space: 70, values: (_, steps) => steps.map((step) => (Number.isInteger(step) && history.value.steps.length > 0 ? integer(step) : "")) },
        { ...axis, size: 44, space: 28, values: (_, values) => values.map((value) => (chart.high ? percent(value) : String(value))) },
      ],
      series: [
        {},
        ...chart.curves.map(({ label, dash, secondary }) => ({
          label,
          stroke: dash || secondary ? colors.muted : colors.accent,
          width: dash ? 1 : 2,
          ...(dash && { dash: [...dash] }),
          points: { show: false },
        })),
      ],
      hooks: {
        setCursor: [(plot) => read(chart, plot.cursor.idx)],
        draw: [(plot) => drawHappenings(plot, colors)],
      },
    },
    dataOf(chart),
    chart.host,
  );
}

/** A small tick at the lower edge for everything that happened. */
function drawHappenings(plot: uPlot, colors: Colors): void {
  const { ctx, bbox } = plot;
  const bottom = bbox.top + bbox.height;
  ctx.save();
  ctx.fillStyle = colors.ink;
  for (const { step } of history.value.happenings) {
    const x = plot.valToPos(step, "x", true);
    if (x >= bbox.left && x <= bbox.left + bbox.width) ctx.fillRect(Math.round(x) - 1, bottom - 8 * devicePixelRatio, 2, 8 * devicePixelRatio);
  }
  ctx.restore();
}

/** Says in words what lies under the cursor. */
function read({ host }: Chart, index: number | null | undefined): void {
  const words = index === null || index === undefined ? "" : wordsAt(index);
  host.setAttribute("aria-valuetext", words || "no step chosen");
  host.setAttribute("aria-valuenow", String(history.value.steps[index ?? -1] ?? 0));
  // Both plots' cursors move together; this one speaks for both.
  if (host.id === "loss-curve") find("reading").textContent = words || HOW_TO_READ;
}

function wordsAt(index: number): string {
  const { steps, happenings } = history.value;
  const step = steps[index];
  if (step === undefined) return "";
  const values = CHARTS.flatMap(({ curves, format }) =>
    curves.filter(({ dash }) => !dash).flatMap((curve) => {
      const value = curve.values()[index];
      return value === null || value === undefined ? [] : [`${curve.label} ${format(value)}`];
    }),
  );
  const previous = steps[index - 1] ?? -1;
  const here = happenings.filter((one) => one.step > previous && one.step <= step).map(({ text }) => text);
  return [`Step ${integer(step)}: ${values.join(", ")}`, ...here].join(". ");
}

/** Makes a chart a slider over the steps: what assistive technology knows to read with arrow keys. */
function readWithKeys({ host, label }: Chart, plot: () => uPlot): void {
  Object.assign(host, { tabIndex: 0, role: "slider", ariaLabel: label, ariaValueMin: "0", ariaValueNow: "0", ariaValueText: "no step chosen" });
  host.addEventListener("keydown", (event) => {
    const lastIndex = history.value.steps.length - 1;
    if (lastIndex < 0) return;
    const now = plot().cursor.idx ?? lastIndex;
    const stride = Math.max(1, Math.round(lastIndex / 50));
    const next = { ArrowLeft: now - stride, ArrowRight: now + stride, Home: 0, End: lastIndex }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const index = Math.min(lastIndex, Math.max(0, next));
    plot().setCursor({ left: plot().valToPos(history.value.steps[index]!, "x"), top: 0 });
  });
}

// Charts of time in SVG: lines or stacked areas, with the values under the pointer or the arrow keys as text.

import { h, s } from "./dom.js";
import { bytes, clock, seconds } from "./format.js";

const WIDTH = 480;
const HEIGHT = 170;
const PAD = { left: 52, right: 8, top: 10, bottom: 22 };
// Where the arrow keys are, for a chart that is drawn anew meanwhile.
let kept = { title: null, time: null };

export function chart({ title, times, series, format, stacked = false }) {
  const known = series.filter((one) => one.values.some((value) => value !== null));
  const box = h("figure", { class: "chart" });
  const last = known.map((one) => lastKnown(one.values));
  box.append(
    h(
      "figcaption",
      {},
      h("span", { class: "title" }, title),
      h(
        "span",
        { class: "legend" },
        known.map((one, i) =>
          h("span", {}, h("i", { class: `key c${one.color}` }), known.length > 1 ? `${one.name} ` : "", h("b", {}, format(last[i]))),
        ),
      ),
    ),
  );
  if (!known.length || times.length < 2) {
    box.append(h("p", { class: "empty" }, known.length ? "One value so far" : "Nothing to show for this table"));
    return box;
  }
  const tops = stacked ? stack(known) : known.map((one) => one.values);
  const values = tops.flat().filter((value) => value !== null);
  const high = Math.max(1e-9, ...values);
  const scale = nice(Math.min(0, ...values), high, unitOf(format, high));
  const x = (i) => PAD.left + ((times[i] - times[0]) / (times.at(-1) - times[0] || 1)) * (WIDTH - PAD.left - PAD.right);
  const y = (value) => HEIGHT - PAD.bottom - ((value - scale.low) / (scale.high - scale.low)) * (HEIGHT - PAD.top - PAD.bottom);
  const svg = s("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    role: "img",
    tabindex: "0",
    "data-key": `chart ${title}`,
    "aria-label": `${title}: ${known.map((one, i) => `${one.name} ${format(last[i])}`).join(", ")}`,
  });
  for (const tick of scale.ticks) {
    svg.append(
      s("line", { class: "rule", x1: PAD.left, x2: WIDTH - PAD.right, y1: y(tick), y2: y(tick) }),
      s("text", { class: "tick", x: PAD.left - 6, y: y(tick) + 4, "text-anchor": "end" }, format(tick)),
    );
  }
  svg.append(
    s("text", { class: "tick", x: PAD.left, y: HEIGHT - 6 }, clock(times[0])),
    s("text", { class: "tick", x: WIDTH - PAD.right, y: HEIGHT - 6, "text-anchor": "end" }, clock(times.at(-1))),
  );
  known.forEach((one, i) => {
    if (stacked) {
      const below = i === 0 ? tops[0].map(() => 0) : tops[i - 1];
      const up = tops[i].map((value, j) => `${x(j)},${y(value)}`);
      const down = below.map((value, j) => `${x(j)},${y(value)}`).reverse();
      svg.append(s("polygon", { class: `area c${one.color}`, points: [...up, ...down].join(" ") }));
    } else {
      svg.append(s("path", { class: `line c${one.color}`, d: path(one.values, x, y) }));
    }
  });
  const rule = s("line", { class: "cursor", y1: PAD.top, y2: HEIGHT - PAD.bottom, visibility: "hidden" });
  const tip = h("output", { class: "tip" });
  svg.append(rule);
  let at = times.length;
  const show = (i) => {
    at = Math.max(0, Math.min(times.length - 1, i));
    rule.setAttribute("x1", x(at));
    rule.setAttribute("x2", x(at));
    rule.setAttribute("visibility", "visible");
    tip.textContent = `${clock(times[at])}  ${known.map((one) => `${one.name} ${format(one.values[at])}`).join("  ")}`;
  };
  const clear = () => {
    rule.setAttribute("visibility", "hidden");
    tip.textContent = "";
  };
  svg.addEventListener("pointermove", (event) => {
    const bounds = svg.getBoundingClientRect();
    show(nearest(times.map((_, j) => x(j)), ((event.clientX - bounds.left) / bounds.width) * WIDTH));
  });
  svg.addEventListener("keydown", (event) => {
    const places = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: times.length - 1 };
    if (!(event.key in places)) return;
    event.preventDefault();
    show(places[event.key]);
    kept = { title, time: times[at] };
  });
  svg.addEventListener("focus", () => {
    if (kept.title === title) show(nearest(times, kept.time));
  });
  svg.addEventListener("pointerleave", clear);
  svg.addEventListener("blur", clear);
  box.append(svg, tip);
  return box;
}

export function bars(columns, rows) {
  const numeric = columns.map((_, i) => rows.some((row) => typeof row[i] === "number") && rows.every((row) => row[i] === null || typeof row[i] === "number"));
  const value = numeric.lastIndexOf(true);
  if (value < 0 || rows.length < 2) return null;
  const label = columns.findIndex((_, i) => i !== value);
  const shown = rows.slice(0, 40);
  const high = Math.max(1e-9, ...shown.map((row) => Math.abs(row[value] ?? 0)));
  return h(
    "figure",
    { class: "bars", "aria-label": `Plot of ${columns[value]}` },
    h("figcaption", {}, label < 0 ? columns[value] : `${columns[value]} by ${columns[label]}`),
    shown.map((row) => {
      const bar = h("span", { class: "bar" });
      bar.style.width = `${(Math.abs(row[value] ?? 0) / high) * 100}%`;
      return h("div", { class: "barline" }, h("span", { class: "barname" }, label < 0 ? "" : String(row[label] ?? "NULL")), h("span", { class: "bartrack" }, bar), h("span", { class: "number" }, row[value] ?? "NULL"));
    }),
  );
}

export function spark(values) {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return null;
  const high = Math.max(1e-9, ...known);
  const x = (i) => (i / (values.length - 1)) * 100;
  const y = (value) => 23 - (value / high) * 21;
  return s("svg", { class: "spark", viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" }, s("path", { class: "line c1", d: path(values, x, y) }));
}

function path(values, x, y) {
  // A batch without rows tells no latency; the line goes on to the next one that does.
  const places = values.map((value, i) => (value === null ? null : `${x(i).toFixed(1)},${y(value).toFixed(1)}`));
  const known = places.filter((place) => place !== null);
  return known.length === 1 ? `M${known[0]}h1` : `M${known.join("L")}`;
}

function stack(series) {
  const sums = series[0].values.map(() => 0);
  return series.map((one) => one.values.map((value, i) => (sums[i] += value ?? 0)));
}

function unitOf(format, high) {
  const units = format === bytes ? [1 << 30, 1 << 20, 1 << 10] : format === seconds ? [86400, 3600, 60] : [];
  return units.find((unit) => high >= 2 * unit) ?? 1;
}

function nice(lowest, highest, unit) {
  const [low, high] = [lowest / unit, highest / unit];
  const power = 10 ** Math.floor(Math.log10(high - low));
  const step = [0.5, 1, 2, 5, 10].map((factor) => factor * power).find((found) => (high - low) / found <= 3.2) ?? power;
  const ticks = [];
  for (let tick = Math.floor(low / step) * step; tick <= high + step * 0.999; tick += step) ticks.push(Number((tick * unit).toPrecision(12)));
  return { ticks, low: ticks[0], high: ticks.at(-1) };
}

function nearest(places, at) {
  let best = 0;
  places.forEach((place, i) => {
    if (Math.abs(place - at) < Math.abs(places[best] - at)) best = i;
  });
  return best;
}

function lastKnown(values) {
  for (let i = values.length - 1; i >= 0; i -= 1) if (values[i] !== null) return values[i];
  return null;
}

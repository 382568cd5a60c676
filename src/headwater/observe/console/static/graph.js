// The pipeline from left to right: what is read, views, tables; each shows whether rows flow.

import { s } from "./dom.js";
import { count } from "./format.js";

const BOX = { width: 176, height: 54, across: 64, down: 18 };

export function graph(nodes, tables, link) {
  const depth = depths(nodes);
  const columns = [];
  for (const node of nodes) (columns[depth.get(node.name)] ??= []).push(node);
  const tallest = Math.max(...columns.map((column) => column.length));
  const width = columns.length * (BOX.width + BOX.across) - BOX.across + 4;
  const height = tallest * (BOX.height + BOX.down) - BOX.down + 4;
  const place = new Map();
  columns.forEach((column, c) => {
    const top = (height - (column.length * (BOX.height + BOX.down) - BOX.down)) / 2;
    column.forEach((node, r) => place.set(node.name, { x: 2 + c * (BOX.width + BOX.across), y: top + r * (BOX.height + BOX.down) }));
  });
  const live = new Map(nodes.map((node) => [node.name, flow(node.name, nodes, tables)]));
  const svg = s("svg", { class: "graph", viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "Graph of the pipeline" });
  for (const node of nodes) {
    for (const read of node.reads) {
      const from = place.get(read);
      const to = place.get(node.name);
      if (!from) continue;
      const [x1, y1] = [from.x + BOX.width, from.y + BOX.height / 2];
      const [x2, y2] = [to.x, to.y + BOX.height / 2];
      const bend = (x2 - x1) / 2;
      svg.append(s("path", { class: `edge ${live.get(node.name).isRunning ? "flows" : ""}`, d: `M${x1},${y1}C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}` }));
    }
  }
  for (const node of nodes) svg.append(box(node, place.get(node.name), tables.get(node.name), live.get(node.name), link));
  return svg;
}

// A source or a view runs where a table that reads it does. How many rows a source gives is known
// from tables that read nothing else; of these the fastest counts.
function flow(name, nodes, tables) {
  const own = tables.get(name);
  if (own) return { isRunning: own.state === "running", rates: sources(name, nodes).size === 1 && own.last ? [own.last.input_rows_per_s] : [] };
  const readers = nodes.filter((node) => node.reads.includes(name)).map((node) => flow(node.name, nodes, tables));
  const running = readers.filter((one) => one.isRunning);
  return { isRunning: running.length > 0, rates: running.flatMap((one) => one.rates) };
}

function sources(name, nodes) {
  const node = nodes.find((one) => one.name === name);
  if (!node || node.kind === "source") return new Set(node ? [name] : []);
  return new Set(node.reads.flatMap((read) => [...sources(read, nodes)]));
}

function box(node, at, table, live, link) {
  const flows = node.kind === "source" && live.rates.length ? `${count(Math.max(...live.rates))} rows/s` : node.detail || node.kind;
  const detail = table ? tableDetail(table) : flows;
  const state = table?.state ?? (live.isRunning && node.kind !== "lookup" ? "running" : "");
  const label = `${node.kind} ${node.name}${state ? `, ${state}` : ""}, ${detail}`;
  const parts = [
    s("title", {}, `${label}\n${node.detail ?? ""}\n${node.where ?? ""}`),
    s("rect", { width: BOX.width, height: BOX.height, rx: node.kind === "source" ? 27 : 8 }),
    s("text", { class: "name", x: 16, y: 23 }, short(node.name, 17)),
    s("text", { class: "detail", x: 16, y: 42 }, short(detail, 23)),
  ];
  if (state) parts.push(s("circle", { class: `dot ${state}`, cx: BOX.width - 16, cy: 18, r: 5 }));
  const group = s("g", { class: `node ${node.kind}`, transform: `translate(${at.x},${at.y})` }, parts);
  return table ? s("a", { href: link(node.name), "aria-label": label }, group) : group;
}

function tableDetail(table) {
  if (!table.last) return table.state;
  return table.state === "running" ? `${count(table.last.input_rows_per_s)} rows/s, batch ${table.last.batch}` : `${table.state}, batch ${table.last.batch}`;
}

function depths(nodes) {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  const found = new Map();
  const depth = (name) => {
    if (!found.has(name)) {
      found.set(name, 0);
      const reads = (byName.get(name)?.reads ?? []).filter((read) => byName.has(read));
      found.set(name, reads.length ? 1 + Math.max(...reads.map(depth)) : 0);
    }
    return found.get(name);
  };
  nodes.forEach((node) => depth(node.name));
  return found;
}

function short(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

// One function per page: it draws once, and returns how to look again.

import { get, post } from "./api.js";
import { bars, chart, spark } from "./chart.js";
import { grid, h, replace } from "./dom.js";
import { bytes, count, moment, seconds, whole } from "./format.js";
import { graph } from "./graph.js";

const PHASES = ["latestOffset", "walCommit", "queryPlanning", "addBatch", "commitOffsets", "commitBatch"];

export function pipelines(main, context) {
  return async () => {
    const found = await get("pipelines");
    context.isReadOnly = found.is_read_only;
    const cards = found.pipelines.map((one) =>
      h(
        "a",
        { class: "card", href: `#/${one.id}/overview` },
        h("h2", {}, badge(one.state), one.pipeline),
        h("p", {}, `${one.app ?? "from Python"} · ${one.tables.length} ${one.tables.length === 1 ? "table" : "tables"}`),
        h("p", { class: "quiet" }, one.ended_at ? `ended ${moment(one.ended_at)}` : `since ${moment(one.started_at)}, process ${one.pid}`),
        h("p", { class: "quiet path" }, one.folder),
      ),
    );
    replace(main, h("h1", {}, "Pipelines"), cards.length ? h("div", { class: "cards" }, cards) : h("p", { class: "quiet" }, "No pipeline was started here yet. Next: headwater run"));
    return found;
  };
}

export function overview(main, { id, context }) {
  let version = "";
  return async () => {
    const found = await get(`p/${id}?version=${version}`);
    if (found.is_unchanged) return found;
    version = found.version;
    const tables = new Map(found.tables.map((table) => [table.table, table]));
    const link = (name) => `#/${id}/table/${encodeURIComponent(name)}`;
    const nodes = found.about.nodes ?? found.tables.map((table) => ({ name: table.table, kind: "table", reads: [] }));
    const focused = focusKey();
    const scrolled = main.querySelector(".graphbox")?.scrollLeft ?? 0;
    replace(
      main,
      h("h1", {}, badge(found.state), found.about.pipeline ?? id, stopAll(id, found, context)),
      h("p", { class: "quiet" }, about(found)),
      h("div", { class: "graphbox", tabindex: "0", role: "region", "aria-label": "Graph" }, graph(nodes, tables, link)),
      h("h2", {}, "Queries"),
      h("div", { class: "scroll" }, queries(id, found, link, context)),
      found.tables.filter((table) => table.problem).map(trouble),
    );
    main.querySelector(".graphbox").scrollLeft = scrolled;
    refocus(main, focused);
    return found;
  };
}

function about(found) {
  const facts = found.about;
  const when = found.ended_at && found.state !== "running" ? `ended ${moment(found.ended_at)}` : `since ${moment(found.started_at)}`;
  return [facts.app, when, facts.master, facts.profile && `profile ${facts.profile}`].filter(Boolean).join(" · ");
}

function queries(id, found, link, context) {
  const heads = ["table", "state", "batch", "rows", "rows/s in", "", "batch time", "watermark lag", "state rows", "Kafka lag", "late", "rejected", ""];
  const line = (table) => {
    const last = table.last;
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, h("a", { href: link(table.table), "data-key": `table ${table.table}` }, table.table)),
      h("td", {}, badge(table.state), table.state),
      h("td", { class: "number", "data-fact": "batch" }, last ? whole(last.batch) : "–"),
      h("td", { class: "number", "data-fact": "rows" }, whole(table.rows)),
      h("td", { class: "number" }, last ? count(last.input_rows_per_s) : "–"),
      h("td", {}, spark(table.trend)),
      h("td", { class: "number" }, last ? seconds(last.duration_ms / 1000) : "–"),
      h("td", { class: "number" }, seconds(table.watermark_lag_s)),
      h("td", { class: "number" }, last ? whole(last.state_rows) : "–"),
      h("td", { class: "number" }, last ? whole(last.kafka_lag) : "–"),
      h("td", { class: "number", "data-fact": "late" }, whole(table.late)),
      h("td", { class: "number", "data-fact": "rejected" }, whole(table.rejected)),
      h("td", {}, actions(id, table, found.state, context)),
    );
  };
  return h("table", { class: "queries" }, h("thead", {}, h("tr", {}, heads.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, found.tables.map(line)));
}

function actions(id, table, state, context) {
  if (context.isReadOnly || state !== "running") return null;
  const act = (command) => async (event) => {
    const button = event.currentTarget;
    if (command === "stop" && !(await confirmed(`Stop table ${table.table}? The running batch is finished first.`))) return;
    button.disabled = true;
    await context.attempt(() => post(`p/${id}/${command}`, { table: table.table }));
    button.disabled = false;
  };
  const isRunning = ["running", "restarting", "starting"].includes(table.state);
  return h(
    "span",
    { class: "actions" },
    isRunning ? h("button", { type: "button", "data-key": `stop ${table.table}`, "aria-label": `Stop ${table.table}`, onclick: act("stop") }, "Stop") : null,
    h("button", { type: "button", "data-key": `restart ${table.table}`, "aria-label": `${isRunning ? "Restart" : "Start"} ${table.table}`, onclick: act("restart") }, isRunning ? "Restart" : "Start"),
  );
}

function stopAll(id, found, context) {
  if (context.isReadOnly || found.state !== "running") return null;
  const stop = async () => {
    if (await confirmed("Stop the whole pipeline? Running batches are finished first.")) await context.attempt(() => post(`p/${id}/stop`, {}));
  };
  return h("button", { type: "button", class: "aside", "data-key": "stop all", onclick: stop }, "Stop pipeline");
}

function confirmed(question) {
  return new Promise((resolve) => {
    const dialog = h(
      "dialog",
      { "aria-label": question, onclose: () => { resolve(dialog.returnValue === "yes"); dialog.remove(); } },
      h("p", {}, question),
      h("div", { class: "actions" }, h("button", { type: "button", class: "main", onclick: () => dialog.close("yes") }, "Yes"), h("button", { type: "button", onclick: () => dialog.close("no") }, "No")),
    );
    document.body.append(dialog);
    dialog.showModal();
  });
}

function trouble(table) {
  return h("details", { class: "trouble", open: table.state === "failed" }, h("summary", {}, `${table.table}: ${table.problem.split("\n")[0]}`), h("pre", {}, table.problem));
}

export function table(main, { id, rest }) {
  const name = rest[0] ?? "";
  let n = "";
  return async () => {
    const [found, asked] = await Promise.all([get(`p/${id}`), get(`p/${id}/series?table=${encodeURIComponent(name)}&n=${n}`)]);
    const mine = found.tables.find((one) => one.table === name);
    const node = (found.about.nodes ?? []).find((one) => one.name === name) ?? {};
    if (asked.is_unchanged) return found;
    n = asked.n;
    if (!mine) {
      replace(main, h("h1", {}, name), h("p", { class: "quiet" }, "There is no such table."));
      return found;
    }
    const focused = focusKey();
    const columns = asked.columns;
    const line = (title, format, ...series) => chart({ title, format, times: columns.at, series: series.map(([label, column, color, size = 1]) => ({ name: label, color, values: columns[column].map((value) => (value === null ? null : value * size)) })) });
    replace(
      main,
      h("h1", {}, badge(mine.state), name),
      h("p", { class: "quiet" }, [mine.state, mine.last && `batch ${whole(mine.last.batch)}`, `${whole(mine.rows)} rows in this run`, node.where?.split("/").at(-1)].filter(Boolean).join(" · ")),
      mine.problem ? trouble(mine) : null,
      h(
        "div",
        { class: "charts" },
        line("Rows per second", count, ["in", "input_rows_per_s", 1], ["processed", "processed_rows_per_s", 2]),
        line("Rows per batch", count, ["in", "input_rows", 1], ["out", "output_rows", 2]),
        chart({ title: "Batch time by phase", format: seconds, stacked: true, times: columns.at, series: PHASES.map((phase, i) => ({ name: phase, color: i + 1, values: columns[phase].map((value) => (value === null ? null : value / 1000)) })) }),
        line("Event to commit", seconds, ["p50", "latency_p50_ms", 1, 0.001], ["p99", "latency_p99_ms", 2, 0.001], ["oldest row", "latency_max_ms", 4, 0.001]),
        line("Watermark behind the commit", seconds, ["lag", "watermark_lag_s", 1]),
        line("Rows in state", count, ["rows", "state_rows", 3]),
        line("Memory of state", bytes, ["bytes", "state_bytes", 3]),
        line("Late and rejected rows", count, ["late", "late", 4], ["rejected", "rejected", 5]),
        line("Kafka lag", count, ["records", "kafka_lag", 6]),
      ),
      facts(node, mine),
      partitions(mine),
    );
    refocus(main, focused);
    return found;
  };
}

function facts(node, mine) {
  const shown = { sink: node.detail, mode: node.mode, trigger: node.trigger, guarantee: node.guarantee?.replaceAll("_", "-"), "late rows": node.late, reads: node.reads?.join(", "), "Python functions": node.python?.join(", "), watermark: mine.last?.watermark?.startsWith("1970-01-01T00:00:00") ? null : mine.last?.watermark };
  const known = Object.entries(shown).filter(([, value]) => value);
  return known.length ? h("dl", { class: "facts" }, known.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])) : null;
}

function partitions(mine) {
  const lags = Object.entries(mine.last?.kafka_lags ?? {});
  return lags.length ? h("section", {}, h("h2", {}, "Kafka lag per partition"), grid(["partition", "records behind"], lags)) : null;
}

export function events(main, { id }) {
  let n = "";
  let asked = "";
  const batches = h("input", { type: "checkbox", id: "batches" });
  const only = h("select", { id: "only" }, h("option", { value: "" }, "everything"));
  const list = h("ol", { class: "timeline" });
  replace(
    main,
    h("h1", {}, "Events"),
    h("div", { class: "tools" }, h("label", { for: "only" }, "Show "), only, h("label", { for: "batches" }, batches, " every batch")),
    list,
  );
  return async () => {
    const query = `table=${encodeURIComponent(only.value)}&batches=${batches.checked ? 1 : 0}`;
    const found = await get(`p/${id}/events?${query}&n=${query === asked ? n : ""}`);
    if (found.is_unchanged) return null;
    [n, asked] = [found.n, query];
    for (const name of new Set(found.events.map((event) => event.table).filter(Boolean))) {
      if (![...only.options].some((option) => option.value === name)) only.append(h("option", { value: name }, name));
    }
    replace(list, found.events.map((event) => {
      const [head, ...more] = event.text.split("\n");
      const at = new Date(event.at);
      return h("li", { class: event.kind }, h("time", { datetime: event.at }, moment(at.getTime() / 1000)), h("span", { class: "what" }, head, more.length ? h("pre", {}, more.join("\n")) : null));
    }));
    if (!found.events.length) list.append(h("li", { class: "quiet" }, "Nothing happened yet."));
    return null;
  };
}

export function rows(main, { id, rest }) {
  const list = h("select", { id: "which", onchange: () => { location.hash = `#/${id}/rows/${encodeURIComponent(list.value)}`; } });
  const again = h("button", { type: "button", hidden: true, onclick: () => { isAsked = true; } }, "Read again");
  const place = h("div", {}, h("p", { class: "quiet" }, "Reading …"));
  replace(main, h("h1", {}, "Rows"), h("div", { class: "tools" }, h("label", { for: "which" }, "Table "), list, again), place);
  let known = "";
  let last = null;
  let isAsked = true;
  return async () => {
    const found = await get(`p/${id}`);
    const names = [...found.sides, ...found.tables.map((one) => one.table)];
    if (names.join() !== known) {
      known = names.join();
      replace(list, names.map((name) => h("option", { value: name, selected: name === rest[0] }, name)));
    }
    // Rows that are not on disk are read by the pipeline itself: only for somebody who asks.
    again.hidden = !takesThePipeline(found, list.value);
    const written = found.tables.find((one) => one.table === list.value)?.last?.at ?? found.n;
    const isNew = again.hidden && last !== written;
    if (!names.length || !(isAsked || isNew)) return found;
    [isAsked, last] = [false, written];
    try {
      const shown = await get(`p/${id}/rows?table=${encodeURIComponent(list.value)}`);
      const of = shown.total !== null && shown.total > shown.rows.length ? ` of ${whole(shown.total)}` : "";
      const when = again.hidden ? "" : `, read at ${moment(Date.now() / 1000)}`;
      replace(place, h("p", { class: "quiet" }, shown.rows.length ? `the newest ${shown.rows.length}${of}${when}` : `Nothing was written yet${when}.`), shown.rows.length ? grid(shown.columns, shown.rows) : null);
    } catch (problem) {
      isAsked = !problem.isAnswer;
      if (isAsked) throw problem;
      replace(place, h("pre", { class: "problem" }, problem.message));
    }
    return found;
  };
}

function takesThePipeline(found, name) {
  const node = (found.about.nodes ?? []).find((one) => one.name === name);
  return ["memory", "spark"].includes(node?.place?.kind);
}

export function models(main, { id }) {
  let version = "";
  return async () => {
    const found = await get(`p/${id}?version=${version}`);
    if (found.is_unchanged) return found;
    version = found.version;
    const none = h("p", { class: "quiet" }, "This pipeline has trained no model yet.");
    const focused = focusKey();
    replace(main, h("h1", {}, "Models"), found.models.length ? found.models.map(model) : none);
    refocus(main, focused);
    return found;
  };
}

function model({ model, versions }) {
  const used = versions.find((one) => one.kind === "ModelPublished" && !one.is_waiting);
  const trained = versions.filter((one) => one.kind === "ModelTrained").reverse();
  const words = { ModelTrained: "trained", ModelPublished: "published", ModelRefused: "refused" };
  const times = trained.map((one) => Date.parse(one.at) / 1000);
  const isScored = versions.some((one) => typeof one.score === "number");
  const columns = [
    ["at", (one) => moment(Date.parse(one.at) / 1000)],
    ["what", (one) => words[one.kind] ?? one.kind],
    ["version", (one) => one.version],
    ...(isScored ? [["score", (one) => score(one.score)], ["score before", (one) => score(one.previous_score)]] : []),
    ["rows", (one) => one.rows ?? "–"],
    ["reason", (one) => one.reason ?? ""],
  ];
  const quality = isScored
    ? h("div", { class: "charts" }, chart({ title: `Score of each training of ${model}`, format: score, times, series: [{ name: "score", color: 3, values: trained.map((one) => one.score ?? null) }] }))
    : h("p", { class: "quiet" }, "No training has a score.");
  return h(
    "section",
    {},
    h("h2", {}, model),
    h("p", { class: "quiet" }, used ? `version ${used.version} is used` : "no version is used yet"),
    quality,
    h("div", { class: "below" }, grid(columns.map(([name]) => name), versions.map((one) => columns.map(([, value]) => value(one))))),
  );
}

function score(value) {
  return value === null || value === undefined ? "–" : Number(value.toPrecision(4)).toString();
}

export function sql(main, { id }) {
  const kept = `headwater-sql-${id}`;
  const text = h("textarea", { id: "question", rows: "4", spellcheck: "false", "aria-label": "Question in SQL", autocapitalize: "off" });
  text.value = sessionStorage.getItem(kept) ?? "";
  const place = h("div", { "aria-live": "polite" });
  const button = h("button", { type: "submit", class: "main" }, "Ask");
  const names = h("p", { class: "quiet" });
  const ask = async () => {
    sessionStorage.setItem(kept, text.value);
    button.disabled = true;
    replace(place, h("p", { class: "quiet" }, "Asking …"));
    try {
      const found = await post(`p/${id}/sql`, { query: text.value });
      const head = `${whole(found.rows.length)} ${found.rows.length === 1 ? "row" : "rows"}${found.is_cut ? ", the first ones only" : ""} in ${seconds(found.seconds)}`;
      replace(place, h("p", { class: "quiet" }, head), bars(found.columns, found.rows), grid(found.columns, found.rows));
    } catch (problem) {
      replace(place, h("pre", { class: "problem" }, problem.message));
    } finally {
      button.disabled = false;
    }
  };
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask();
  });
  const form = h("form", { onsubmit: (event) => { event.preventDefault(); ask(); } }, text, h("div", { class: "tools" }, button, h("span", { class: "quiet" }, "Ctrl+Enter asks. Spark's SQL, one SELECT.")));
  replace(main, h("h1", {}, "SQL"), names, form, place);
  let isNamed = false;
  return async () => {
    if (isNamed) return null;
    const found = await get(`p/${id}`);
    isNamed = true;
    const known = [...found.tables.map((one) => one.table), ...found.sides];
    names.textContent = `Tables: ${known.join(", ")}`;
    if (!text.value && known.length) text.value = `SELECT * FROM ${known[0]} LIMIT 20`;
    return found;
  };
}

export function doctor(main, { id }) {
  return async () => {
    const found = await get(`p/${id}/doctor`);
    const card = (one) =>
      h(
        "article",
        { class: `advice ${one.is_hint ? "hint" : ""}` },
        h("h2", {}, `${one.table}: ${one.finding}`),
        h("ul", {}, one.evidence.map((text) => h("li", {}, text))),
        h("p", {}, h("b", {}, "Gain "), one.gain),
        h("p", {}, h("b", {}, "Setting "), h("code", {}, one.setting)),
        h("p", { class: "quiet" }, `${one.is_hint ? "hint" : "advice"}, rule ${one.rule}`),
      );
    const needed = found.advice.some((one) => !one.is_hint);
    replace(main, h("h1", {}, "Doctor"), needed ? null : h("p", { class: "good" }, "Nothing to advise. The doctor looks at the batches of the last run."), found.advice.map(card));
    return null;
  };
}

function badge(state) {
  return h("i", { class: `dot ${state}`, title: state, role: "img", "aria-label": state });
}

function focusKey() {
  return document.activeElement?.getAttribute?.("data-key") ?? document.activeElement?.closest?.("svg a")?.getAttribute("href") ?? null;
}

function refocus(main, key) {
  if (key === null) return;
  [...main.querySelectorAll("[data-key], svg a")].find((one) => (one.getAttribute("data-key") ?? one.getAttribute("href")) === key)?.focus();
}

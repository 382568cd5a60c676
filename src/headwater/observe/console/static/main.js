// Chooses the page by the address, looks again twice a second, and says when nobody answers.

import { Refused, get, takeToken, useToken } from "./api.js";
import { h, replace } from "./dom.js";
import * as pages from "./pages.js";

const TABS = [["overview", "Overview"], ["events", "Events"], ["rows", "Rows"], ["models", "Models"], ["sql", "SQL"], ["doctor", "Doctor"]];
const EVERY_MS = 500;
const main = document.getElementById("main");
const banner = document.getElementById("banner");
const crumb = document.getElementById("crumb");
const tabs = document.getElementById("tabs");
const context = { isReadOnly: false, attempt };
let look = null;
let turn = 0;

function route() {
  const [id, page = "overview", ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  turn += 1;
  replace(main, h("p", { class: "quiet" }, "Loading …"));
  document.title = id ? `${page} · ${id.replace(/^\d+-/, "")} · Headwater` : "Headwater";
  replace(crumb, id ? h("a", { href: `#/${encodeURIComponent(id)}/overview` }, id.replace(/^\d+-/, "")) : null, page === "table" ? h("span", {}, ` / ${rest[0]}`) : null);
  replace(tabs, id ? TABS.map(([name, title]) => h("a", { href: `#/${encodeURIComponent(id)}/${name}`, "aria-current": name === page ? "page" : null }, title)) : null);
  const chosen = id ? pages[page] : pages.pipelines;
  if (typeof chosen !== "function") {
    look = null;
    replace(main, h("h1", {}, "No such page"), h("p", {}, h("a", { href: "#/" }, "All pipelines")));
    return;
  }
  look = id ? chosen(main, { id: encodeURIComponent(id), rest, context }) : pages.pipelines(main, context);
  tick(turn);
}

async function tick(mine) {
  if (mine !== turn || look === null) return;
  if (!document.hidden) {
    try {
      await look();
      tell(null);
    } catch (problem) {
      if (mine !== turn) return;
      if (problem instanceof Refused) return login(problem.message);
      tell(problem.isAnswer ? problem.message : "The connection is cut. Trying again …");
    }
  }
  setTimeout(() => tick(mine), EVERY_MS);
}

async function attempt(action) {
  try {
    return await action();
  } catch (problem) {
    tell(problem.message, true);
    return null;
  }
}

let isKept = false;

function tell(text, keep = false) {
  if (text === null && isKept) return;
  isKept = keep;
  banner.hidden = text === null;
  replace(banner, text === null ? null : h("span", {}, text), keep ? h("button", { type: "button", onclick: () => { isKept = false; tell(null); } }, "Close") : null);
}

function login(message) {
  look = null;
  const field = h("input", { id: "token", autocomplete: "off", required: true });
  const enter = (event) => {
    event.preventDefault();
    useToken(field.value);
    start();
  };
  replace(main, h("h1", {}, "Token"), h("p", {}, message), h("p", { class: "quiet" }, "The command that started the console printed an address that ends in #token=…"), h("form", { class: "login", onsubmit: enter }, h("label", { for: "token" }, "Token "), field, h("button", { type: "submit", class: "main" }, "Open")));
  field.focus();
}

async function start() {
  try {
    const found = await get("pipelines");
    context.isReadOnly = found.is_read_only;
    if (location.hash.replace(/^#\/?/, "") === "" && found.pipelines.length === 1) location.replace(`#/${encodeURIComponent(found.pipelines[0].id)}/overview`);
    else route();
  } catch (problem) {
    if (problem instanceof Refused) login(problem.message);
    else {
      tell("Nobody answers. Trying again …");
      setTimeout(start, EVERY_MS);
    }
  }
}

window.addEventListener("hashchange", () => {
  if (takeToken() && location.hash.includes("token=")) return;
  route();
});
takeToken();
start();

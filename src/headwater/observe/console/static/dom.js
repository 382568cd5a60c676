// Elements are built from values: text is always text, so rows of users cannot become markup.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export function replace(parent, ...children) {
  parent.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
}

export function grid(columns, rows) {
  const numeric = columns.map((_, i) => {
    const known = rows.map((row) => row[i]).filter((value) => value !== null);
    return known.length > 0 && known.every((value) => typeof value === "number");
  });
  const cell = (value, i) =>
    h("td", { class: numeric[i] ? "number" : null }, value === null ? h("span", { class: "null" }, "NULL") : shown(value));
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Rows" },
    h(
      "table",
      { class: "rows" },
      h("thead", {}, h("tr", {}, columns.map((name, i) => h("th", { scope: "col", class: numeric[i] ? "number" : null }, name)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell)))),
    ),
  );
}

function shown(value) {
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  return text.length > 200 ? `${text.slice(0, 199)}…` : text;
}

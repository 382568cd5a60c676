// Every request carries the token in a header; no other page can do that.

const KEPT = "headwater-token";

export class Refused extends Error {}

export function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(KEPT, given);
    history.replaceState(null, "", "#/");
  }
  return sessionStorage.getItem(KEPT) !== null;
}

export function useToken(token) {
  sessionStorage.setItem(KEPT, token.trim());
}

export async function get(path) {
  return ask(path, { method: "GET" });
}

export async function post(path, body) {
  return ask(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
}

async function ask(path, options) {
  const headers = { ...options.headers, Authorization: `Bearer ${sessionStorage.getItem(KEPT) ?? ""}` };
  const answer = await fetch(`/api/${path}`, { ...options, headers, cache: "no-store", signal: AbortSignal.timeout(60000) });
  if (answer.status === 401) throw new Refused("The token is missing or wrong.");
  const value = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(value.error ?? answer.statusText), { isAnswer: true });
  return value;
}

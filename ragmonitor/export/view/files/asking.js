// Asks the server that the page is from.

/** A reply is waited for no longer than the server keeps a connection: one that hangs is no live one. */
const WITHIN_MS = 10000;

export function ask(path) {
  return fetch(path, { cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(WITHIN_MS) });
}

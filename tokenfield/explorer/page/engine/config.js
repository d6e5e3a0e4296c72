/** A run as plain data, with the keys of a TOML run file: checked key by key, with a default for what is missing or wrong. */

import { KERNELS } from "./kernels.js";
import { NORMS } from "./norms.js";

export const MOST_TOKENS = 2000;
export const MOST_BETA = 1000;

export const DEFAULT_CONFIG = {
  attention: { kind: "softmax", beta: 9, A: null, V: null, causal: false },
  norm: { kind: "post" },
  noise: null,
  tokens: { kind: "sphere", n: 256, d: 3, seed: 0 },
  t1: null,
};

const KNOWN = {
  "": ["attention", "norm", "noise", "tokens", "t1", "foreign"],
  attention: ["kind", "beta", "A", "V", "causal", "slope", "rule"],
  norm: ["kind", "tau", "alpha"],
  noise: ["kappa"],
  tokens: ["x", "weights", "kind", "angles", "n", "d", "seed", "k", "spread"],
};
const BESIDE_MODEL = /^(tokens\b|state$|observe$|save_at$|rtol$|atol$|dt$|method$|merge_tolerance$|stop_when$|noise\.seed$)/;

/** Return the keys of a raw config that this page does not know, such as "state" or "attention.heads". */
function unknownKeys(raw) {
  const isTable = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
  return Object.entries(KNOWN).flatMap(([table, known]) => {
    const value = table ? raw?.[table] : raw;
    if (!isTable(value)) return [];
    return Object.keys(value).filter((key) => value[key] !== null && !known.includes(key)).map((key) => (table ? `${table}.${key}` : key));
  });
}

/** True if what `readConfig` could not use or does not know is part of the model, so that theory and code would be wrong. */
export function isForeign({ problems, unknown }) {
  return [...problems, ...unknown].some((line) => !BESIDE_MODEL.test(line));
}

/**
 * Return {config, problems, unknown}: a complete config, one line for each value that was not usable and was replaced by its
 * default, and the keys that are not known here. What a user wrote is quoted in the lines, so they must be shown as text.
 */
export function readConfig(raw) {
  const problems = [];
  const say = (name, value, allowed) => problems.push(`${name} must be ${allowed}, got ${shown(value)}`);
  const table = (name) => {
    const value = raw?.[name];
    if (value === undefined || value === null) return {};
    if (typeof value === "object" && !Array.isArray(value)) return value;
    say(name, value, "a table");
    return {};
  };
  const number = (from, name, low, high, other, whole = false) => {
    const value = from[last(name)];
    if (value === undefined || value === null) return other;
    if (typeof value === "number" && value >= low && value <= high && (!whole || Number.isInteger(value))) return value;
    say(name, value, `a${whole ? " whole" : ""} number from ${low} to ${high}`);
    return other;
  };
  const choice = (from, name, allowed, other) => {
    const value = from[last(name)];
    if (value === undefined || value === null) return other;
    if (allowed.includes(value)) return value;
    say(name, value, `one of ${allowed.join(", ")}`);
    return other;
  };
  const square = (value, d) =>
    Array.isArray(value) && value.length === d &&
    value.every((row) => Array.isArray(row) && row.length === d && row.every((c) => Number.isFinite(c) && Math.abs(c) <= MOST_BETA));

  const tokens = readTokens(table("tokens"), { number, choice, say });
  const d = tokens.x ? tokens.x[0].length : tokens.d;

  const a = table("attention"), attention = {
    kind: choice(a, "attention.kind", KERNELS, "softmax"),
    beta: number(a, "attention.beta", -MOST_BETA, MOST_BETA, 9),
    A: null,
    V: null,
    causal: choice(a, "attention.causal", [true, false], false),
  };
  if (a.A !== undefined && a.A !== null) {
    if (square(a.A, d)) attention.A = a.A;
    else say("attention.A", a.A, `a ${d} x ${d} matrix`);
  }
  if (a.V !== undefined && a.V !== null) {
    if (square(a.V, d) || (Number.isFinite(a.V) && Math.abs(a.V) <= 100)) attention.V = a.V;
    else say("attention.V", a.V, `a number or a ${d} x ${d} matrix`);
  }
  const slope = number(a, "attention.slope", 0, 100, 0);
  if (slope) attention.slope = slope;
  if (attention.kind === "hardmax") attention.rule = choice(a, "attention.rule", ["self", "others"], "self");

  const b = table("norm"), norm = { kind: choice(b, "norm.kind", Object.keys(NORMS), "post") };
  if (norm.kind === "mix") norm.tau = number(b, "norm.tau", 1e-3, 1e6, 2);
  if (norm.kind === "ngpt") norm.alpha = number(b, "norm.alpha", 1e-3, 100, 1);

  let noise = null;
  if (raw?.noise !== undefined && raw?.noise !== null) {
    const kappa = number(table("noise"), "noise.kappa", 1e-3, 1e6, null);
    if (kappa !== null) noise = { kappa };
    if (noise && norm.kind !== "post") {
      problems.push(`noise needs norm.kind = post, got ${norm.kind}: the noise is left out`);
      noise = null;
    }
  }
  return { config: { attention, norm, noise, tokens, t1: number(raw ?? {}, "t1", 0, 1e12, null) }, problems, unknown: unknownKeys(raw) };
}

function readTokens(t, { number, choice, say }) {
  if (t.x !== undefined) {
    const d = t.x?.[0]?.length;
    const row = (r) => Array.isArray(r) && r.length === d && r.every(Number.isFinite) && r.some((c) => c !== 0);
    if (Array.isArray(t.x) && t.x.length >= 1 && t.x.length <= MOST_TOKENS && (d === 2 || d === 3) && t.x.every(row)) {
      const weights = Array.isArray(t.weights) && t.weights.length === t.x.length && t.weights.every((w) => w > 0) ? t.weights : null;
      if (t.weights && !weights) say("tokens.weights", t.weights, `${t.x.length} numbers > 0`);
      return weights ? { x: t.x, weights } : { x: t.x };
    }
    say("tokens.x", t.x, `1 to ${MOST_TOKENS} rows of 2 or 3 numbers, none of them zero`);
  }
  const kind = choice(t, "tokens.kind", ["sphere", "hemisphere", "clusters", "circle"], "sphere");
  if (kind === "circle") {
    const good = Array.isArray(t.angles) && t.angles.length >= 1 && t.angles.length <= MOST_TOKENS && t.angles.every(Number.isFinite);
    if (good) return { kind, angles: t.angles, d: 2 };
    say("tokens.angles", t.angles, `1 to ${MOST_TOKENS} numbers`);
    return { ...DEFAULT_CONFIG.tokens };
  }
  const tokens = {
    kind,
    n: number(t, "tokens.n", 1, MOST_TOKENS, 256, true),
    d: number(t, "tokens.d", 2, 3, 3, true),
    seed: number(t, "tokens.seed", 0, 2 ** 32 - 1, 0, true),
  };
  if (kind === "clusters") {
    tokens.k = number(t, "tokens.k", 1, tokens.n, Math.min(4, tokens.n), true);
    tokens.spread = number(t, "tokens.spread", 0, 10, 0.1);
  }
  return tokens;
}

/** Return the number of tokens of a config. */
export function tokenCount(tokens) {
  return tokens.x?.length ?? tokens.angles?.length ?? tokens.n;
}

/** Return the dimension of a config's tokens. */
export function dimension(tokens) {
  return tokens.x ? tokens.x[0].length : tokens.d;
}

/** Return beta of an isotropic model (of softmax on the sphere for L2), or null for a general A or a kernel without beta. */
export function effectiveBeta(attention) {
  if (attention.kind === "hardmax" || attention.kind === "sigmoid") return null;
  if (attention.kind === "l2") return 2 * attention.beta;
  return attention.A ? null : attention.beta;
}

function last(name) {
  return name.split(".").pop();
}

function shown(value) {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 40 ? `${text.slice(0, 37)}...` : text;
}

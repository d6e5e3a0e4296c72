/** The state of the page as the fragment of a link, and back. Anything in a link may be nonsense: it is checked. */

import { dimension, readConfig } from "./engine/config.js";
import { NORMS } from "./engine/norms.js";

export const DEFAULT_VIEW = { speed: 1, log: false, yaw: 0.6, pitch: 0.35, spin: 0, trails: true, field: false, compare: null, story: null, step: 0 };
export const SPEED_RANGE = [0.01, 100];

const round = (value) => Number(value.toPrecision(12));
const list = (matrix) => matrix.flat().map(round).join(",");

/**
 * Return the fragment, without "#", of a config and a view {speed, log, yaw, pitch, spin, trails, field, compare, story, step}. Of a run
 * that the page does not know in full (see tables.js) it has the tables, or the changes to those of the server.
 */
export function writeLink(config, view, tables = null) {
  const out = new URLSearchParams();
  const put = (key, value, usual) => value !== usual && value !== null && value !== undefined && out.set(key, String(value));
  if (!tables) putModel(config, put);
  else if (!tables.changes) put("run", JSON.stringify(tables.data));
  else put("changes", JSON.stringify(tables.changes), "{}");
  put("speed", round(view.speed), 1);
  put("log", view.log ? 1 : 0, 0);
  put("yaw", Number(view.yaw.toFixed(2)), DEFAULT_VIEW.yaw);
  put("pitch", Number(view.pitch.toFixed(2)), DEFAULT_VIEW.pitch);
  put("spin", Number(view.spin.toFixed(2)), DEFAULT_VIEW.spin);
  put("trails", view.trails ? 1 : 0, 1);
  put("field", view.field ? 1 : 0, 0);
  put("vs", view.compare);
  if (view.story) {
    put("story", view.story);
    put("step", view.step, 0);
  }
  return out.toString().replaceAll("%2C", ",");
}

function putModel(config, put) {
  const { attention, norm, noise, tokens } = config;
  put("kernel", attention.kind);
  if (attention.kind !== "hardmax" && !attention.A) put("beta", round(attention.beta));
  if (attention.A) put("A", list(attention.A));
  if (Array.isArray(attention.V)) put("V", list(attention.V));
  else put("V", attention.V, null);
  put("causal", attention.causal ? 1 : 0, 0);
  put("slope", attention.slope, 0);
  put("rule", attention.rule, "self");
  put("norm", norm.kind);
  put("tau", norm.tau);
  put("alpha", norm.alpha);
  put("kappa", noise?.kappa);
  if (tokens.x) {
    put("d", dimension(tokens));
    put("x", packed(tokens.x));
    if (tokens.weights) put("w", tokens.weights.map(round).join(","));
  } else if (tokens.kind === "circle") put("angles", tokens.angles.map(round).join(","));
  else {
    put("start", tokens.kind, "sphere");
    for (const key of ["n", "d", "seed", "k", "spread"]) put(key, tokens[key]);
  }
  put("t1", config.t1);
}

const MODEL = "kernel beta A V causal slope rule norm tau alpha kappa x w angles start n d seed k spread t1".split(" ");
const KNOWN = [...MODEL, ..."run changes speed log yaw pitch spin trails field vs story step".split(" ")];

/**
 * Return {config, view, problems, given, named, tables}: `given` is false if the fragment says nothing, `named` if it has no key
 * of a run, and `tables` is null or what the link has of a run of the server, {data} or {changes}.
 */
export function readLink(fragment, storyNames = []) {
  const problems = [], view = { ...DEFAULT_VIEW };
  let params;
  try {
    params = new URLSearchParams(fragment.replace(/^#/, ""));
  } catch {
    return { ...readConfig({}), view, problems: ["the link could not be read"], given: true, named: false, tables: null };
  }
  const keys = [...params.keys()];
  for (const key of keys) if (!KNOWN.includes(key)) problems.push(`unknown key ${quoted(key)}`);
  const number = (key) => {
    const text = params.get(key);
    return text === null ? undefined : text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
  };
  const flag = (key, usual) => {
    const text = params.get(key);
    if (text === null) return usual;
    if (text === "0" || text === "1") return text === "1";
    problems.push(`${key} must be 0 or 1, got ${quoted(text)}`);
    return usual;
  };
  const numbers = (key) => params.get(key)?.split(",").map(Number);
  const matrix = (key) => {
    const values = numbers(key), side = values && Math.round(Math.sqrt(values.length));
    if (!values) return undefined;
    if (values.length === 1) return values[0];
    if (side * side !== values.length) return params.get(key);
    return Array.from({ length: side }, (_, i) => values.slice(i * side, (i + 1) * side));
  };
  const json = (key) => {
    if (!params.has(key)) return null;
    try {
      const value = JSON.parse(params.get(key));
      if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
    } catch {
      // not JSON: said below
    }
    problems.push(`${key} must be a table of a link made by this page, got ${quoted(params.get(key))}`);
    return null;
  };
  const defined = (table) => Object.fromEntries(Object.entries(table).filter(([, value]) => value !== undefined));
  const raw = {
    attention: defined({ kind: params.get("kernel") ?? undefined, beta: number("beta"), A: matrix("A"), V: matrix("V"), causal: flag("causal", false), slope: number("slope"), rule: params.get("rule") ?? undefined }),
    norm: defined({ kind: params.get("norm") ?? undefined, tau: number("tau"), alpha: number("alpha") }),
    noise: params.has("kappa") ? { kappa: number("kappa") } : null,
    tokens: defined({ kind: params.get("start") ?? undefined, n: number("n"), d: number("d"), seed: number("seed"), k: number("k"), spread: number("spread") }),
    t1: number("t1"),
  };
  if (params.has("angles")) raw.tokens = { kind: "circle", angles: numbers("angles") };
  if (params.has("x")) {
    const x = unpacked(params.get("x"), number("d"));
    raw.tokens = x ? defined({ x, weights: numbers("w") }) : {};
    if (!x) problems.push("x must be tokens of a link made by this page");
  }
  const read = readConfig(raw);
  problems.push(...read.problems);
  const within = (key, low, high, usual) => {
    const value = number(key);
    if (value === undefined) return usual;
    if (typeof value === "number" && value >= low && value <= high) return value;
    problems.push(`${key} must be a number from ${low} to ${high}, got ${quoted(params.get(key))}`);
    return usual;
  };
  view.speed = within("speed", ...SPEED_RANGE, 1);
  view.yaw = within("yaw", -10, 10, view.yaw);
  view.pitch = within("pitch", -1.6, 1.6, view.pitch);
  view.spin = within("spin", -3.2, 3.2, view.spin);
  view.log = flag("log", false);
  view.trails = flag("trails", true);
  view.field = flag("field", false);
  const vs = params.get("vs"), story = params.get("story");
  if (vs !== null && Object.hasOwn(NORMS, vs)) view.compare = vs;
  else if (vs !== null) problems.push(`vs must be one of ${Object.keys(NORMS).join(", ")}, got ${quoted(vs)}`);
  if (story !== null && storyNames.includes(story)) {
    view.story = story;
    view.step = within("step", 0, 9, 0);
  } else if (story !== null) problems.push(`story must be one of ${storyNames.join(", ")}, got ${quoted(story)}`);
  const data = json("run"), changes = json("changes"), tables = data ? { data, changes: null } : changes && { changes };
  return { config: read.config, view, problems, given: keys.length > 0, named: keys.some((key) => MODEL.includes(key)), tables };
}

function quoted(text) {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 37)}...` : text);
}

/** Tokens placed by hand have whole coordinates up to 32767: two bytes each, in base64 for links. */
function packed(x) {
  const bytes = new Uint8Array(Int16Array.from(x.flat()).buffer);
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function unpacked(text, d) {
  try {
    const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    if (bytes.length === 0 || bytes.length % (2 * d) !== 0) return null;
    const values = Array.from(new Int16Array(bytes.buffer));
    return Array.from({ length: values.length / d }, (_, i) => values.slice(i * d, (i + 1) * d));
  } catch {
    return null;
  }
}

/** A run of tokenfield as the tables of a run file, and changes to it, as the server understands them. */

import { readConfig } from "./engine/config.js";
import { forServer } from "./sources.js";

/** Names of keys in changes, as in setup.py. */
const SHORT = {
  beta: ["attention", "beta"], kind: ["attention", "kind"], causal: ["attention", "causal"], A: ["attention", "A"], V: ["attention", "V"],
  rule: ["attention", "rule"], kappa: ["noise", "kappa"], norm: ["norm", "kind"], tau: ["norm", "tau"], alpha: ["norm", "alpha"],
};

/** Return tables with changes: values of short names, or whole tables; null removes. */
export function patched(tables, changes) {
  const result = { ...tables };
  for (const [key, value] of Object.entries(changes)) {
    if (key in SHORT && (typeof value !== "object" || value === null || Array.isArray(value))) {
      const [table, name] = SHORT[key];
      result[table] = { ...result[table], [name]: value };
      if (value === null) delete result[table][name];
      if (key === "kappa" && value === null) delete result.noise;
    } else if (value === null) delete result[key];
    else result[key] = value;
  }
  return result;
}

/** Return a config of the page with parts of its tables replaced; a new kind of norm takes none of the old parameters. */
export function merged(config, { attention, norm, ...rest }) {
  return { ...config, ...rest, attention: { ...config.attention, ...attention }, norm: norm?.kind ? norm : { ...config.norm, ...norm } };
}

/** Return parts of tables of the page (as for `merged`) as changes for the server: only what is named, so that all else stays. */
export function asChanges(config, { attention, norm, noise }) {
  const server = forServer(readConfig(merged(config, { attention, norm, noise: noise === undefined ? config.noise : noise })).config), changes = {};
  if (attention?.kind) {
    const { beta, causal } = server.attention, known = server.attention.kind === attention.kind;
    changes.attention = known ? server.attention : { kind: attention.kind, ...(beta === undefined ? {} : { beta }), ...(causal ? { causal } : {}) };
  } else {
    for (const key of Object.keys(attention ?? {})) changes[key] = server.attention[key] ?? null;
    if (attention && "A" in attention) changes.beta = server.attention.beta ?? null; // A replaces beta
  }
  if (norm?.kind) changes.norm = server.norm.kind === norm.kind ? server.norm : { ...norm };
  else for (const key of Object.keys(norm ?? {})) changes[key] = norm[key];
  if (noise !== undefined) changes.kappa = noise?.kappa ?? null;
  return changes;
}

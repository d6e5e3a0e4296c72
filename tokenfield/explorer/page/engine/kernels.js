/**
 * Attention sums over tokens in R^2 and R^3: Gamma_i = V sum_j w_j k(x_i, x_j) x_j (FORMULAS §1).
 * Arrays are flat: token i has coordinates x[i*d], ..., x[i*d + d-1].
 */

import { quickExp } from "./exponential.js";

export const KERNELS = ["softmax", "unnormalized", "l2", "sigmoid", "hardmax"];

/** From this beta on, unnormalized attention is divided by e^beta, as in tokenfield. */
const LARGE_BETA = 30;

/** Return the attention of a checked config, ready for sums in R^d. */
export function makeAttention(config, d) {
  const kind = config.kind;
  const general = kind !== "l2" && config.A ? flat(config.A) : null;
  const beta = kind === "hardmax" ? 1 : config.beta;
  return {
    kind,
    d,
    beta: general ? null : beta,
    A: general,
    V: Array.isArray(config.V) ? flat(config.V) : null,
    v: typeof config.V === "number" ? config.V : 1,
    causal: config.causal === true,
    slope: config.slope ?? 0,
    rule: config.rule ?? "self",
    tie: config.tie ?? 1e-9,
    logUnit: kind === "unnormalized" && !general && beta > LARGE_BETA ? beta : 0,
  };
}

/** Return sum_j w_j k(x_i, x_j) V x_j of every token in `out`. */
export function selfAttention(att, x, w, out) {
  const n = w.length;
  const plain = !att.A && !att.causal && !att.slope;
  if (plain && att.kind !== "hardmax" && !(att.beta < 0)) symmetricSums(att, x, w, out);
  else attentionAt(att, x, n, x, w, out, true);
  applyV(att, out, n);
}

/** Return the same at any m points y, which come after all tokens: cross-attention. */
export function crossAttention(att, y, m, x, w, out) {
  attentionAt(att, y, m, x, w, out, false);
  applyV(att, out, m);
}

/** Return the n x n matrix of coefficients w_j k(x_i, x_j) of the tokens listed in `order`. */
export function attentionMatrix(att, x, w, order) {
  const n = w.length, m = order.length, row = new Float64Array(n), matrix = new Float64Array(m * m);
  for (let a = 0; a < m; a++) {
    coefficients(att, x, order[a], x, w, row, true);
    for (let b = 0; b < m; b++) matrix[a * m + b] = row[order[b]];
  }
  return matrix;
}

/** Return how much token i attends to each token. */
export function attentionRow(att, x, w, i) {
  const row = new Float64Array(w.length);
  coefficients(att, x, i, x, w, row, true);
  return row;
}

/** Kernels of the score on the unit sphere are symmetric: each pair is visited once. */
function symmetricSums(att, x, w, out) {
  const n = w.length, d = att.d;
  const sigmoid = att.kind === "sigmoid";
  const normalized = att.kind === "softmax" || att.kind === "l2";
  const b = att.kind === "l2" ? 2 * att.beta : att.beta;
  const shift = normalized ? b : att.logUnit;
  const sums = new Float64Array(n * 4); // x, y, z, normalizer
  const three = d === 3;
  for (let i = 0; i < n; i++) {
    const xi = x[i * d], yi = x[i * d + 1], zi = three ? x[i * d + 2] : 0, wi = w[i];
    let sx = 0, sy = 0, sz = 0, s = 0;
    for (let j = i; j < n; j++) {
      const xj = x[j * d], yj = x[j * d + 1], zj = three ? x[j * d + 2] : 0;
      const score = b * (xi * xj + yi * yj + zi * zj) - shift;
      const k = sigmoid ? 1 / (1 + Math.exp(-score)) : quickExp(score);
      const kj = k * w[j];
      sx += kj * xj;
      sy += kj * yj;
      sz += kj * zj;
      s += kj;
      if (j > i) {
        const ki = k * wi, at = 4 * j;
        sums[at] += ki * xi;
        sums[at + 1] += ki * yi;
        sums[at + 2] += ki * zi;
        sums[at + 3] += ki;
      }
    }
    const at = 4 * i;
    const scale = normalized ? 1 / (sums[at + 3] + s) : 1;
    out[i * d] = (sums[at] + sx) * scale;
    out[i * d + 1] = (sums[at + 1] + sy) * scale;
    if (three) out[i * d + 2] = (sums[at + 2] + sz) * scale;
  }
}

/** Sums row by row, for any kernel. */
function attentionAt(att, y, m, x, w, out, itself) {
  const n = w.length, d = att.d, row = new Float64Array(n);
  for (let i = 0; i < m; i++) {
    coefficients(att, y, i, x, w, row, itself);
    for (let c = 0; c < d; c++) {
      let sum = 0;
      for (let j = 0; j < n; j++) sum += row[j] * x[j * d + c];
      out[i * d + c] = sum;
    }
  }
}

/** Fill `row` with w_j k(y_i, x_j), normalized where the kernel is. `itself`: point i of y is token i of x. */
function coefficients(att, y, i, x, w, row, itself) {
  const n = w.length, d = att.d;
  const seen = att.causal && itself ? i + 1 : n;
  const l2 = att.kind === "l2";
  const q = [0, 0, 0];
  for (let a = 0; a < d; a++) {
    if (att.A) for (let b = 0; b < d; b++) q[a] += att.A[a * d + b] * y[i * d + b];
    else q[a] = (l2 ? 2 : 1) * att.beta * y[i * d + a];
  }
  const place = itself ? (i + 1) / n : 1;
  let top = -Infinity;
  for (let j = 0; j < seen; j++) {
    let score = 0, square = 0;
    for (let a = 0; a < d; a++) {
      const c = x[j * d + a];
      score += q[a] * c;
      square += c * c;
    }
    if (l2) score -= att.beta * square;
    if (att.slope) score -= att.slope * Math.abs(place - (j + 1) / n);
    row[j] = score;
    if (w[j] > 0 && score > top) top = score;
  }
  row.fill(0, seen);
  if (att.kind === "hardmax") return hardmaxRow(att, y, i, x, w, row, seen, top);
  let total = 0;
  for (let j = 0; j < seen; j++) {
    let k;
    if (att.kind === "sigmoid") k = 1 / (1 + Math.exp(-row[j]));
    else if (att.kind === "unnormalized") k = Math.exp(row[j] - att.logUnit);
    else k = w[j] > 0 ? Math.exp(row[j] - top) : 0;
    total += row[j] = w[j] * k;
  }
  if (att.kind === "softmax" || l2) for (let j = 0; j < seen; j++) row[j] /= total;
}

/** Equal weights on the largest scores; with rule "others", tokens at the same place are left out. */
function hardmaxRow(att, y, i, x, w, row, seen, top) {
  const d = att.d, share = new Float64Array(seen);
  for (let j = 0; j < seen; j++) share[j] = w[j];
  if (att.rule === "others") {
    let length = 0;
    for (let a = 0; a < d; a++) length += y[i * d + a] ** 2;
    const reach = att.tie * (1 + Math.sqrt(length));
    let others = false;
    const apart = new Uint8Array(seen);
    for (let j = 0; j < seen; j++) {
      let square = 0;
      for (let a = 0; a < d; a++) square += (y[i * d + a] - x[j * d + a]) ** 2;
      apart[j] = square > reach * reach ? 1 : 0;
      if (apart[j] && w[j] > 0) others = true;
    }
    if (others) for (let j = 0; j < seen; j++) if (!apart[j]) share[j] = 0;
    top = -Infinity;
    for (let j = 0; j < seen; j++) if (share[j] > 0 && row[j] > top) top = row[j];
  }
  const least = top - att.tie * (1 + Math.abs(top));
  let total = 0;
  for (let j = 0; j < seen; j++) total += row[j] = row[j] >= least ? share[j] : 0;
  for (let j = 0; j < seen; j++) row[j] /= total;
}

function applyV(att, out, n) {
  const d = att.d;
  if (!att.V) {
    if (att.v !== 1) for (let k = 0; k < n * d; k++) out[k] *= att.v;
    return;
  }
  const y = [0, 0, 0];
  for (let i = 0; i < n; i++) {
    for (let a = 0; a < d; a++) {
      y[a] = 0;
      for (let b = 0; b < d; b++) y[a] += att.V[a * d + b] * out[i * d + b];
    }
    for (let a = 0; a < d; a++) out[i * d + a] = y[a];
  }
}

function flat(rows) {
  return Float64Array.from(rows.flat());
}

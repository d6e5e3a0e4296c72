/** What is measured of tokens: clusters, energy, order parameter, cosines, modes. x is flat with unit rows. */

import { quickExp } from "./exponential.js";

/** Two tokens touch when their cosine is at least 1 - TOLERANCE, as in tokenfield. */
export const TOLERANCE = 1e-3;

/**
 * Return {labels, count}: connected components of "touching" whose diameter is also within the tolerance; every token
 * of a wider component counts as one cluster. Label 0 is the largest.
 */
export function clusters(x, n, d, tolerance = TOLERANCE) {
  const reach = 2 * tolerance, chord = Math.sqrt(reach);
  const sorted = Int32Array.from({ length: n }, (_, i) => i).sort((a, b) => x[a * d] - x[b * d]);
  const parent = Int32Array.from({ length: n }, (_, i) => i);
  const root = (i) => {
    while (parent[i] !== i) i = parent[i] = parent[parent[i]];
    return i;
  };
  for (let a = 0; a < n; a++) {
    const i = sorted[a], limit = x[i * d] + chord;
    for (let b = a + 1; b < n && x[sorted[b] * d] <= limit; b++) {
      const j = sorted[b];
      if (squared(x, i, j, d) <= reach) parent[root(j)] = root(i);
    }
  }
  const byRoot = new Map();
  for (let i = 0; i < n; i++) {
    const r = root(i), members = byRoot.get(r);
    if (members) members.push(i);
    else byRoot.set(r, [i]);
  }
  const groups = [];
  for (const members of byRoot.values()) {
    if (members.length > 1 && !within(x, members, d, reach)) for (const i of members) groups.push([i]);
    else groups.push(members);
  }
  groups.sort((a, b) => b.length - a.length || a[0] - b[0]);
  const labels = new Int32Array(n);
  groups.forEach((members, label) => members.forEach((i) => (labels[i] = label)));
  return { labels, count: groups.length };
}

function squared(x, i, j, d) {
  let sum = 0;
  for (let a = 0; a < d; a++) sum += (x[i * d + a] - x[j * d + a]) ** 2;
  return sum;
}

function within(x, members, d, reach) {
  let most = 0;
  for (const i of members) most = Math.max(most, squared(x, i, members[0], d));
  if (most <= reach / 4) return true;
  if (most > reach) return false;
  for (let a = 0; a < members.length; a++)
    for (let b = 0; b < a; b++) if (squared(x, members[a], members[b], d) > reach) return false;
  return true;
}

/** Return the order parameter, the length of the mean direction. */
export function order(x, w, d) {
  let square = 0;
  for (let a = 0; a < d; a++) {
    let sum = 0;
    for (let i = 0; i < w.length; i++) sum += w[i] * x[i * d + a];
    square += sum * sum;
  }
  return Math.sqrt(square);
}

/** Return the mean cosine over pairs i != j, from the order parameter. */
export function meanCosine(orderParameter, w) {
  let own = 0;
  for (const each of w) own += each * each;
  return own < 1 ? (orderParameter * orderParameter - own) / (1 - own) : 1;
}

/** Return the normalized energy, the sum of w_i w_j e^{beta (<x_i,x_j> - 1)}, in (0, 1]. */
export function energy(x, w, d, beta) {
  const n = w.length;
  let total = 0;
  for (let i = 0; i < n; i++) {
    let row = 0;
    for (let j = 0; j < i; j++) row += w[j] * quickExp((-beta / 2) * squared(x, i, j, d));
    total += w[i] * (2 * row + w[i]);
  }
  return total;
}

/** Return the share of pairs in each of `bins` equal bins of the cosine from -1 to 1, of at most 300 tokens. */
export function cosineHistogram(x, n, d, bins = 40) {
  const counts = new Float64Array(bins), step = Math.max(1, Math.ceil(n / 300));
  let pairs = 0;
  for (let i = 0; i < n; i += step)
    for (let j = 0; j < i; j += step) {
      let cosine = 0;
      for (let a = 0; a < d; a++) cosine += x[i * d + a] * x[j * d + a];
      counts[Math.min(bins - 1, Math.max(0, Math.floor(((cosine + 1) / 2) * bins)))]++;
      pairs++;
    }
  for (let b = 0; b < bins; b++) counts[b] /= Math.max(1, pairs);
  return counts;
}

/**
 * Return the amplitude of modes 0 ... last: |mean of e^{ik theta}| on the circle; for d = 3 the root of the mean of the
 * Legendre polynomial P_k of all cosines.
 */
export function modeAmplitudes(x, w, d, last) {
  const n = w.length, sums = new Float64Array(last + 1);
  if (d === 2) {
    const re = new Float64Array(last + 1), im = new Float64Array(last + 1);
    for (let i = 0; i < n; i++) {
      const c = x[2 * i], s = x[2 * i + 1];
      let a = w[i], b = 0;
      for (let k = 0; k <= last; k++) {
        re[k] += a;
        im[k] += b;
        [a, b] = [a * c - b * s, a * s + b * c];
      }
    }
    for (let k = 0; k <= last; k++) sums[k] = Math.hypot(re[k], im[k]);
    return sums;
  }
  for (let i = 0; i < n; i++)
    for (let j = 0; j <= i; j++) {
      const t = x[3 * i] * x[3 * j] + x[3 * i + 1] * x[3 * j + 1] + x[3 * i + 2] * x[3 * j + 2];
      const weight = (i === j ? 1 : 2) * w[i] * w[j];
      let p = 1, q = t;
      for (let k = 0; k <= last; k++) {
        sums[k] += weight * p;
        [p, q] = [q, ((2 * k + 3) * t * q - (k + 1) * p) / (k + 2)];
      }
    }
  for (let k = 0; k <= last; k++) sums[k] = Math.sqrt(Math.max(0, sums[k]));
  return sums;
}

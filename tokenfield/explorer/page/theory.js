/** Predictions without a simulation. Each function has a twin of nearly the same name in tokenfield.theory. */

import { NORMS } from "./engine/norms.js";
import { short } from "./numbers.js";

/** Return log w_k, the multiplier of e^{beta<x,y>} on harmonics of degree k on the sphere of R^d (FORMULAS §8). */
export function logMultiplier(k, beta, d) {
  if (beta === 0) return k === 0 ? 0 : -Infinity;
  const a = k + d / 2, x = (beta * beta) / 4;
  let leading = 0;
  for (let i = 0; i < k; i++) leading += Math.log(beta / (d + 2 * i));
  // sum_m x^m / (m! (a)_m), relative to its largest term, at m (m + a - 1) = x
  const peak = Math.max(0, Math.floor((Math.sqrt((a - 1) ** 2 + 4 * x) - (a - 1)) / 2));
  let top = 0;
  for (let m = 1; m <= peak; m++) top += Math.log(x / (m * (m + a - 1)));
  let sum = 1;
  for (let m = peak + 1, term = 1; term > 1e-18 * sum; m++) sum += term *= x / (m * (m + a - 1));
  for (let m = peak, term = 1; m >= 1 && term > 1e-18 * sum; m--) sum += term *= (m * (m + a - 1)) / x;
  return leading + top + Math.log(sum);
}

function logRate(k, beta, d) {
  if (k === 0) return -Infinity;
  if (beta === 0) return k === 1 ? Math.log((d - 1) / d) : -Infinity;
  return Math.log(k * (k + d - 2)) + logMultiplier(k, beta, d) - Math.log(beta);
}

/** Return the growth rates of modes 0 ... last of the uniform measure under Post-LN, divided by e^logUnit (FORMULAS §8). */
export function growthRates(beta, d, kind, last, logUnit = 0) {
  const less = kind === "softmax" ? logMultiplier(0, beta, d) : logUnit;
  return Array.from({ length: last + 1 }, (_, k) => Math.exp(logRate(k, beta, d) - less));
}

/** Return k_max, the mode that grows fastest: on the circle the number of the first clusters (FORMULAS §8). */
export function firstClusters(beta, d) {
  let k = 1;
  while (beta > 0 && logRate(k + 1, beta, d) > logRate(k, beta, d)) k++;
  return k;
}

/** Return how many modes to look at: enough to see the largest rate and its fall. */
export function interestingModes(beta, d) {
  return Math.max(12, Math.min(80, Math.ceil(1.7 * firstClusters(Math.max(beta ?? 0, 0), d))));
}

/** Return kappa_c, above which the uniform measure with noise is unstable (FORMULAS §10). */
export function criticalKappa(beta, d, kind, logUnit = 0) {
  if (beta === 0) return d;
  const w0 = kind === "softmax" ? logMultiplier(0, beta, d) : logUnit;
  return Math.exp(Math.log(beta) - logMultiplier(1, beta, d) + w0);
}

/** Return beta_*, up to which order sets in continuously under unnormalized attention: w_2/w_1 = 1/d (FORMULAS §10). */
export function betaStar(d) {
  return bisect((b) => logMultiplier(2, b, d) - logMultiplier(1, b, d) + Math.log(d), 1, 3);
}

function bisect(f, low, high) {
  for (let i = 0; i < 200 && high - low > 1e-15 * high; i++) {
    const middle = (low + high) / 2;
    if (f(middle) < 0) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/**
 * Return the logarithm of the time in which two clusters of masses m go from cosine rho0 to rho1 under Post-LN:
 * T = the integral of d rho / ((1-rho^2) F(rho)) (FORMULAS §9).
 */
export function logMergeTime(rho0, rho1, beta, masses = [0.5, 0.5], kind = "softmax") {
  let [mi, mj] = masses;
  if (kind === "softmax") [mi, mj] = [mi / (mi + mj), mj / (mi + mj)];
  const slow = (u) => {
    if (kind !== "softmax") return -beta * Math.tanh(u) - Math.log(mi + mj);
    const exponent = (2 * beta) / (1 + Math.exp(2 * u)), e = Math.exp(-exponent);
    return exponent + Math.log(((mi + mj * e) * (mj + mi * e)) / (mi * mi + mj * mj + 2 * mi * mj * e));
  };
  const start = Math.atanh(rho0), length = Math.atanh(rho1) - start, top = slow(start);
  if (!(length > 0)) return -Infinity;
  let total = 0, from = 0;
  for (let panel = 1 / (1 + beta); from < length; panel *= 2) {
    const to = Math.min(length, from + panel);
    total += gauss((v) => Math.exp(slow(start + v) - top), from, to);
    from = to;
  }
  return top + Math.log(total);
}

/** Return the cosine at which the energy of a pair of clusters is half-way to that of one: where a merge is counted. */
export function halfWayCosine(rho0, beta) {
  if (beta <= 0) return 1 - (1 - rho0) / 2;
  return 1 + Math.log1p(Math.expm1(-beta * (1 - rho0)) / 2) / beta;
}

/** Gauss–Legendre quadrature with 20 nodes. */
const NODES = legendreNodes(20);

function legendreNodes(count) {
  return Array.from({ length: count }, (_, i) => {
    let x = Math.cos((Math.PI * (i + 0.75)) / (count + 0.5)), slope = 1;
    for (let step = 0; step < 100; step++) {
      let p = 1, q = x;
      for (let k = 2; k <= count; k++) [p, q] = [q, ((2 * k - 1) * x * q - (k - 1) * p) / k];
      slope = (count * (x * q - p)) / (x * x - 1);
      const change = q / slope;
      x -= change;
      if (Math.abs(change) < 1e-16) break;
    }
    return [x, 2 / ((1 - x * x) * slope * slope)];
  });
}

function gauss(f, a, b) {
  let sum = 0;
  for (const [x, w] of NODES) sum += w * f((a + b) / 2 + ((b - a) / 2) * x);
  return (sum * (b - a)) / 2;
}

/** Return (t, u, r) -> [rate, growth] of n equiangular tokens: u' = -rate u with u = 1 - rho, r' = growth (FORMULAS §7). */
function equiangularRates(n, beta, norm, kind, logUnit) {
  const rule = NORMS[norm.kind]({ tau: norm.tau ?? 2, alpha: norm.alpha ?? 1 });
  return (t, u, r) => {
    let a, c;
    if (kind === "softmax") [a, c] = [1 / (1 + (n - 1) * Math.exp(-beta * u)), 1 / (Math.exp(beta * u) + n - 1)];
    else [a, c] = [Math.exp(beta - logUnit) / n, Math.exp(beta * (1 - u) - logUnit) / n];
    const rho = 1 - u, inner = a + (n - 1) * c * rho;
    const length = Math.sqrt(a * a + (n - 1) * c * (2 * a * rho + c * (1 + (n - 2) * rho)));
    return [2 * rule.speed(t, r, inner, length) * c * (1 + (n - 1) * rho), rule.growth(t, r, inner, length)];
  };
}

/**
 * Return {times, rho} of n equiangular tokens from cosine rho0 and length r0 at time t0 until rho1 (FORMULAS §7). The independent
 * variable is -log(1 - rho), in equal steps of Runge–Kutta of order 4.
 */
export function equiangularCurve(n, beta, norm, kind, rho0, rho1 = 0.999, steps = 600, logUnit = 0, t0 = 0, r0 = 1) {
  const rates = equiangularRates(n, beta, norm, kind, logUnit);
  if (!(1 + (n - 1) * rho0 > 1e-12) || !(rho0 < rho1)) return { times: [t0], rho: [rho0] };
  const start = -Math.log1p(-rho0), h = (-Math.log1p(-rho1) - start) / steps;
  const right = (lambda, t, r) => {
    const [rate, growth] = rates(t, Math.exp(-lambda), r);
    return [1 / rate, growth / rate];
  };
  let t = t0, r = r0;
  const times = [t0], rho = [rho0];
  for (let i = 0; i < steps; i++) {
    const l = start + i * h;
    const [t1, r1] = right(l, t, r);
    const [t2, r2] = right(l + h / 2, t + (h / 2) * t1, r + (h / 2) * r1);
    const [t3, r3] = right(l + h / 2, t + (h / 2) * t2, r + (h / 2) * r2);
    const [t4, r4] = right(l + h, t + h * t3, r + h * r3);
    t += (h / 6) * (t1 + 2 * t2 + 2 * t3 + t4);
    r += (h / 6) * (r1 + 2 * r2 + 2 * r3 + r4);
    times.push(t);
    rho.push(-Math.expm1(-(l + h)));
  }
  return { times, rho };
}

/** Return the order parameter of n equiangular tokens: r^2 = (1 + (n-1) rho)/n. */
export function equiangularOrder(rho, n) {
  return Math.sqrt(Math.max(0, (1 + (n - 1) * rho) / n));
}

/** Return the normalized energy of n equiangular tokens: (1 + (n-1) e^{beta(rho-1)})/n. */
export function equiangularEnergy(rho, n, beta) {
  return (1 + (n - 1) * Math.exp(beta * (rho - 1))) / n;
}

/** Return the expected normalized energy of n independent uniform tokens: 1/n + (1 - 1/n) w_0 e^{-beta} (FORMULAS §8). */
export function uniformEnergy(n, beta, d) {
  return 1 / n + (1 - 1 / n) * Math.exp(logMultiplier(0, beta, d) - beta);
}

/** Return the order parameter of many tokens on the circle under beta = 0 a time t after r0: the Kuramoto model, close to uniform. */
export function kuramotoOrder(r0, t) {
  const e = r0 * r0 * Math.exp(t);
  return Math.sqrt(e / (1 - r0 * r0 + e));
}

/** Return how much a token of cluster a attends to its own cluster: m_a / sum_b m_b e^{-beta(1-rho_ab)} (softmax). */
export function ownAttention(a, masses, cosines, beta) {
  return masses[a] / masses.reduce((sum, mass, b) => sum + mass * Math.exp(-beta * (1 - cosines[a][b])), 0);
}

/** Return how much one of n uniform tokens attends to itself, many tokens: e^beta/(n w_0) (softmax). */
export function attentionToSelf(n, beta, d) {
  return 1 / (1 + (n - 1) * Math.exp(logMultiplier(0, beta, d) - beta));
}

/** Return the time at which n equiangular tokens reach cosine rho1 from rho0: the time of collapse for rho1 = 0.999. */
export function timeToCosine(rho1, n, beta, norm, kind, rho0 = 0, steps = 4000, logUnit = 0) {
  const { times, rho } = equiangularCurve(n, beta, norm, kind, rho0, rho1, steps, logUnit);
  return rho.length > 1 ? times.at(-1) : Infinity;
}

/** Return how 1 - rho goes to 0 at late times, as text (FORMULAS §7). */
export function terminalLaw(norm, kind, beta) {
  const speed = kind === "softmax" ? 1 : Math.exp(beta);
  if (norm.kind === "post") return `e^{−${short(2 * speed)} t}`;
  if (norm.kind === "sqrt") return `e^{−${short(4 * speed)} √t}`;
  if (norm.kind === "ngpt") return `e^{−${short(2 * (norm.alpha ?? 1))} t}`;
  return "t^{−2}";
}

/** Return the cosine of two tokens after one softmax layer, from n tokens at equal angles (FORMULAS §7). */
export function layerContraction(rho, n, beta) {
  const own = 1 / (1 + (n - 1) * Math.exp(-beta * (1 - rho))), other = (1 - own) / (n - 1);
  const excess = -own * Math.expm1(-beta * (1 - rho)), S = 1 + (n - 1) * rho;
  const shared = other * S * (n * other + 2 * excess);
  return (shared + excess * excess * rho) / (shared + excess * excess);
}

/** Return 1/(1-rho): with beta = gamma log n, one layer merges all tokens below this gamma and none above (FORMULAS §7). */
export function criticalGamma(rho) {
  return 1 / (1 - rho);
}

/**
 * Return the order parameter of the ordered stationary law with noise, 0 if there is none (FORMULAS §10).
 * Unnormalized: p ~ exp(kappa W*p); softmax: p ~ Z^{kappa/beta}. A fixed point, from the concentrated side.
 */
export function stationaryOrder(beta, kappa, d, kind, logUnit = 0) {
  const size = 240, t = [], weight = [];
  for (let i = 0; i < size; i++) {
    const angle = (Math.PI * (i + 0.5)) / size;
    t.push(Math.cos(angle));
    weight.push(d === 2 ? 1 : Math.sin(angle));
  }
  const w1 = logMultiplier(1, beta, d), logs = [];
  for (let l = 0; l < 200; l++) {
    const log = beta === 0 ? (l === 1 ? 0 : -Infinity) : logMultiplier(l, beta, d);
    if (l > 1 && !(log > (beta === 0 ? 0 : w1) - 37)) break;
    logs.push(log);
  }
  const polynomial = t.map((c) => basis(c, logs.length, d));
  const many = logs.map((_, l) => (d === 2 ? (l === 0 ? 1 : 2) : 2 * l + 1)); // number of harmonics of degree l
  const total = weight.reduce((a, b) => a + b);
  let p = t.map((c) => Math.exp(Math.min(kappa, 50) * (c - 1)));
  let m = 1;
  for (let step = 0; step < 4000; step++) {
    const mass = p.reduce((sum, value, i) => sum + value * weight[i], 0);
    const c = logs.map((_, l) => p.reduce((sum, value, i) => sum + value * weight[i] * polynomial[i][l], 0) / mass);
    const V = t.map((_, i) => {
      let sum = 0;
      for (let l = kind === "softmax" && beta > 0 ? 0 : 1; l < logs.length; l++)
        sum += many[l] * factor(l) * c[l] * polynomial[i][l];
      return kind === "softmax" && beta > 0 ? (kappa / beta) * Math.log(Math.max(sum, 1e-300)) : kappa * sum;
    });
    const most = Math.max(...V);
    p = V.map((v) => Math.exp(v - most));
    if (Math.abs(c[1] - m) < 1e-10) break;
    m = c[1];
    if (m < 1e-4) return 0;
  }
  return total > 0 ? m : 0;

  function factor(l) {
    if (beta === 0) return l === 1 ? 1 / d : 0;
    return kind === "softmax" ? Math.exp(logs[l] - logs[0]) : Math.exp(logs[l] - logUnit) / beta;
  }
}

/** Chebyshev (d = 2) or Legendre (d = 3) polynomials 0 ... count-1 at c, equal to 1 at c = 1. */
function basis(c, count, d) {
  const p = [1, c];
  for (let k = 1; k + 1 < count; k++)
    p.push(d === 2 ? 2 * c * p[k] - p[k - 1] : ((2 * k + 1) * c * p[k] - k * p[k - 1]) / (k + 1));
  return p;
}

/**
 * Return the influence of each of n tokens on the last after time t of causal attention near one cluster, with ALiBi's
 * slope: the last row of e^{t(P-I)}, P_ij = w_j/(w_1+...+w_i), w_j = e^{slope j/n} (FORMULAS §13).
 */
export function flowInfluence(n, t, slope = 0) {
  const w = Float64Array.from({ length: n }, (_, j) => Math.exp(slope * ((j + 1) / n - 1)));
  const total = new Float64Array(n);
  w.reduce((sum, value, i) => (total[i] = sum + value), 0);
  let row = new Float64Array(n), weight = Math.exp(-t);
  row[n - 1] = 1;
  const sum = row.map((v) => v * weight);
  for (let L = 1; L < t + 12 * Math.sqrt(t) + 30; L++) {
    const next = new Float64Array(n);
    for (let j = n - 1, tail = 0; j >= 0; j--) {
      tail += row[j] / total[j];
      next[j] = w[j] * tail;
    }
    row = next;
    weight *= t / L;
    for (let j = 0; j < n; j++) sum[j] += weight * row[j];
  }
  return sum;
}

/**
 * Return the covariance [a, c, b] of a Gaussian in the plane a time t after it was [a, c, b]: S (I - t M S)^{-1}, with
 * M = v (A + A^T), under softmax attention without a norm; null from the blow-up on (FORMULAS §5).
 */
export function gaussianCovariance(A, v, [a, c, b], t) {
  const [p, q, r] = gaussianRates(A, v);
  const [k, l, m, n] = [1 - t * (p * a + q * c), -t * (p * c + q * b), -t * (q * a + r * c), 1 - t * (q * c + r * b)]; // I - t M S
  const determinant = k * n - l * m;
  if (!(determinant > 1e-12) || t >= gaussianBlowup(A, v, [a, c, b])) return null;
  return [(a * n - c * m) / determinant, (c * k - a * l) / determinant, (b * k - c * l) / determinant];
}

/** Return M = v (A + A^T) as [p, q, r]. */
function gaussianRates([[a, b], [c, d]], v) {
  return [2 * v * a, v * (b + c), 2 * v * d];
}

/** Return when the covariance blows up: one over the largest eigenvalue of M S, or Infinity if that is not positive. */
export function gaussianBlowup(A, v, [a, c, b]) {
  const [p, q, r] = gaussianRates(A, v), half = (p * a + 2 * q * c + r * b) / 2, determinant = (p * r - q * q) * (a * b - c * c);
  const largest = half + Math.sqrt(Math.max(0, half * half - determinant));
  return largest > 1e-12 * (Math.abs(p) + Math.abs(q) + Math.abs(r)) * (a + b) ? 1 / largest : Infinity;
}

/** Return the means at times t after the first of them: m' = v (I + S A) m, by Runge–Kutta of order 4 between them. */
export function gaussianMeans(A, v, mean, cov, times, steps = 8) {
  const right = (t, [x, y]) => {
    const s = gaussianCovariance(A, v, cov, t);
    if (!s) return [NaN, NaN];
    const [g, h] = [A[0][0] * x + A[0][1] * y, A[1][0] * x + A[1][1] * y];
    return [v * (x + s[0] * g + s[1] * h), v * (y + s[1] * g + s[2] * h)];
  };
  const means = [mean];
  for (let k = 1; k < times.length; k++) {
    let m = means[k - 1];
    const h = (times[k] - times[k - 1]) / steps;
    for (let i = 0; i < steps; i++) {
      const t = times[k - 1] - times[0] + i * h, at = (slope, part) => m.map((value, j) => value + part * h * slope[j]);
      const a = right(t, m), b = right(t + h / 2, at(a, 0.5)), c = right(t + h / 2, at(b, 0.5)), d = right(t + h, at(c, 1));
      m = m.map((value, j) => value + (h / 6) * (a[j] + 2 * b[j] + 2 * c[j] + d[j]));
    }
    means.push(m);
  }
  return means;
}

/** Return the time from which the last positions are no longer favored: 2 (1 - e^{-slope}) / rate (FORMULAS §13). */
export function recencyEnds(slope, rate = 1) {
  return (-2 * Math.expm1(-slope)) / rate;
}

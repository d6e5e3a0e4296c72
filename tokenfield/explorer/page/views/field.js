/** The vector field of attention, at places where there may be no token. */

import { MOST_TOKENS } from "../engine/config.js";
import { crossAttention } from "../engine/kernels.js";

/** Arrows of the velocity P Gamma(y) at points y of the sphere; the longest is a fixed length. */
export function drawField(scene, index, { n, d, weights }, attention, place, theme) {
  const y = gridPoints(d), m = y.length / d, out = new Float64Array(m * d), some = thinned(scene.view(index).x, weights, n, d);
  crossAttention(attention, y, m, some.x, some.weights, out);
  let most = 1e-12;
  for (let i = 0; i < m; i++) {
    let inner = 0, square = 0;
    for (let a = 0; a < d; a++) inner += y[i * d + a] * out[i * d + a];
    for (let a = 0; a < d; a++) square += (out[i * d + a] -= inner * y[i * d + a]) ** 2;
    most = Math.max(most, Math.sqrt(square));
  }
  const tint = theme.dark ? [0.85, 0.9, 1] : [0.15, 0.25, 0.35];
  const scale = (d === 2 ? 0.22 : 0.16) / most;
  for (let i = 0; i < m; i++) {
    const at = d === 2 ? 1.07 : 1, c = [0, 1, 2].map((a) => (a < d ? y[i * d + a] : 0)), v = [0, 1, 2].map((a) => (a < d ? out[i * d + a] * scale : 0));
    const [x0, y0, z0] = scene.screen(place, d, ...c, at), [x1, y1] = scene.screen(place, d, ...c.map((p, a) => p + v[a]), at);
    if (z0 < 0) continue;
    scene.line(x0, y0, x1, y1, 1.3, tint, 0.6);
    const long = Math.hypot(x1 - x0, y1 - y0), head = Math.min(5, 0.4 * long);
    if (long < 2) continue;
    const [ux, uy] = [(x1 - x0) / long, (y1 - y0) / long];
    for (const turn of [0.5, -0.5]) scene.line(x1, y1, x1 - head * (ux - turn * uy), y1 - head * (uy + turn * ux), 1.3, tint, 0.6);
  }
}

/** Return tokens and weights in double precision; of many tokens every k-th, with weights that add up to the same. */
export function thinned(x, weights, n, d, most = MOST_TOKENS) {
  const step = Math.ceil(n / most), count = Math.ceil(n / step), w = Float64Array.from({ length: count }, (_, k) => (weights ? weights[k * step] : 1 / n));
  const total = weights ? weights.reduce((a, b) => a + b) : 1, sum = w.reduce((a, b) => a + b);
  return {
    x: Float64Array.from({ length: count * d }, (_, k) => x[Math.floor(k / d) * step * d + (k % d)]),
    weights: step > 1 ? w.map((value) => (value * total) / sum) : w,
  };
}

/** Points that cover the circle or the sphere evenly (a Fibonacci lattice). */
function gridPoints(d) {
  const count = d === 2 ? 48 : 240;
  const points = [];
  for (let i = 0; i < count; i++) {
    if (d === 2) points.push(Math.cos((2 * Math.PI * i) / count), Math.sin((2 * Math.PI * i) / count));
    else {
      const z = 1 - (2 * i + 1) / count, flat = Math.sqrt(1 - z * z), angle = i * 2.399963229728653;
      points.push(flat * Math.cos(angle), flat * Math.sin(angle), z);
    }
  }
  return Float64Array.from(points);
}

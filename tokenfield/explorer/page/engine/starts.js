/** Initial tokens. The same seed gives the same tokens as in tokenfield. */

import { copyUnit } from "./flow.js";
import { NumpyGenerator } from "./random.js";

/** Coordinates of tokens that were placed by hand are whole multiples of 1/GRID, so that a link holds them exactly. */
export const GRID = 32767;

/** Return {x, weights, n, d} of a checked config of tokens. */
export function makeTokens(config) {
  const points = POINTS[config.x ? "x" : config.kind](config);
  const d = config.x ? config.x[0].length : config.d;
  const n = points.length / d;
  copyUnit(points, points, n, d);
  return { x: points, n, d, weights: makeWeights(config.weights, n) };
}

/** Return weights that sum to 1. */
export function makeWeights(given, n) {
  if (!given) return new Float64Array(n).fill(1 / n);
  const total = given.reduce((sum, w) => sum + w, 0);
  return Float64Array.from(given, (w) => w / total);
}

const POINTS = {
  x: ({ x }) => Float64Array.from(x.flat()),
  sphere: ({ n, d, seed }) => new NumpyGenerator(seed).normals(n * d),
  hemisphere({ n, d, seed }) {
    const draws = new NumpyGenerator(seed).normals(n * d);
    for (let i = 0; i < n; i++) draws[i * d] = Math.abs(draws[i * d]);
    return draws;
  },
  circle: ({ angles }) => Float64Array.from(angles.flatMap((a) => [Math.cos(a), Math.sin(a)])),
  /** k tight groups: the best separated of 200 random k-tuples of centers, plus Gaussians. */
  clusters({ n, d, k, spread, seed }) {
    const random = new NumpyGenerator(seed), tries = 200;
    const draws = random.normals(tries * k * d);
    copyUnit(draws, draws, tries * k, d);
    let best = 0, least = Infinity;
    for (let a = 0; a < tries; a++) {
      let most = -2;
      for (let i = 0; i < k; i++)
        for (let j = 0; j < i; j++) {
          let cosine = 0;
          for (let c = 0; c < d; c++) cosine += draws[(a * k + i) * d + c] * draws[(a * k + j) * d + c];
          most = Math.max(most, cosine);
        }
      if (most < least) [best, least] = [a, most];
    }
    const noise = random.normals(n * d);
    for (let i = 0; i < n; i++) {
      const center = best * k + Math.floor((i * k) / n);
      for (let c = 0; c < d; c++) noise[i * d + c] = draws[center * d + c] + spread * noise[i * d + c];
    }
    return noise;
  },
};

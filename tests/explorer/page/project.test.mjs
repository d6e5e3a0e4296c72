/** Tokens in many dimensions, seen in three. */

import assert from "node:assert/strict";
import test from "node:test";

import { Gaussians } from "../../../tokenfield/explorer/page/engine/random.js";
import { Projection } from "../../../tokenfield/explorer/page/views/project.js";

const inner = (x, i, j, d) => Array.from({ length: d }, (_, a) => x[i * d + a] * x[j * d + a]).reduce((a, b) => a + b);

test("tokens of a space of three dimensions keep their cosines", () => {
  const n = 20, d = 7, random = new Gaussians(1), basis = Array.from({ length: 3 }, () => Array.from({ length: d }, () => random.normal()));
  const x = new Float32Array(n * d);
  for (let i = 0; i < n; i++) {
    const c = basis.map(() => random.normal()), row = Array.from({ length: d }, (_, a) => basis.reduce((sum, b, k) => sum + c[k] * b[a], 0)), length = Math.hypot(...row);
    row.forEach((value, a) => (x[i * d + a] = value / length));
  }
  const seen = new Projection().of(x, n, d);
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) assert.ok(Math.abs(inner(seen, i, j, 3) - inner(x, i, j, d)) < 1e-3);
});

test("the directions are those in which tokens are largest, and stay from frame to frame", () => {
  const n = 200, d = 6, random = new Gaussians(2), x = new Float32Array(n * d), sizes = [0.2, 2, 0.1, 1, 0.3, 0.6];
  for (let i = 0; i < n; i++) {
    const row = sizes.map((size) => size * random.normal()), length = Math.hypot(...row);
    row.forEach((value, a) => (x[i * d + a] = value / length));
  }
  const projection = new Projection(), first = projection.of(x, n, d), share = (k) => first.filter((_, at) => at % 3 === k).reduce((sum, v) => sum + v * v, 0) / n;
  assert.ok(share(0) > share(1) && share(1) > share(2) && share(0) + share(1) + share(2) > 0.9);
  assert.deepEqual(projection.axes.map((axis) => axis.map(Math.abs).indexOf(Math.max(...axis.map(Math.abs)))), [1, 3, 5]);
  const second = projection.of(x.map((value) => value * (1 + 1e-4)), n, d);
  assert.ok(second.every((value, k) => Math.abs(value - first[k]) < 0.02));
});

test("one cluster is one point at distance 1", () => {
  const seen = new Projection().of(Float32Array.of(0, 0, 0, 1, 0, 0, 0, 1), 2, 4);
  assert.ok(Math.abs(Math.hypot(...seen.subarray(0, 3)) - 1) < 1e-3);
  assert.deepEqual([...seen.subarray(0, 3)], [...seen.subarray(3)]);
});

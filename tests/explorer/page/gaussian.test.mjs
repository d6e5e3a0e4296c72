/** Gaussians of the page: points of the cone of covariances, and the axes of ellipses. */

import assert from "node:assert/strict";
import test from "node:test";

import { axesOf, conePoint } from "../../../tokenfield/explorer/page/covariance.js";
import { follow } from "../../../tokenfield/explorer/page/views/gaussian.js";

const frame = (a, b, c) => ({ d: 2, x: [0.5, 0.2, a, c, c, b] });

test("a covariance is the point (a - b, 2c, a + b), and its ellipse has its eigenvalues and eigenvectors", () => {
  for (const [a, b, c] of [[0.7, 0.3, 0.1], [1, 1, 0], [2, 0.5, -1], [0.3, 4, 0.9], [1, 1, 1]]) {
    const point = conePoint(frame(a, b, c)), { big, small, turn } = axesOf(point), [cos, sin] = [Math.cos(turn), Math.sin(turn)];
    assert.deepEqual(point, [a - b, 2 * c, a + b]);
    const again = [big ** 2 * cos ** 2 + small ** 2 * sin ** 2, big ** 2 * sin ** 2 + small ** 2 * cos ** 2, (big ** 2 - small ** 2) * cos * sin];
    [a, b, c].forEach((value, k) => assert.ok(Math.abs(again[k] - value) < 1e-12));
  }
});

test("of more coordinates the first two are taken", () => {
  assert.deepEqual(conePoint({ d: 3, x: [0, 0, 0, 4, 1, 9, 1, 2, 9, 9, 9, 9] }), [2, 2, 6]);
});

test("a path keeps its first and last points, and leaves out what is no number", () => {
  let path = [];
  for (let k = 0; k <= 2000; k++) path = follow(path, frame(1 + k, 1, 0));
  assert.ok(path.length <= 600);
  assert.deepEqual([path[0], path.at(-1)], [[0, 0, 2, 0.5, 0.2], [2000, 0, 2002, 0.5, 0.2]]);
  assert.equal(follow(path, frame(NaN, 1, 0)).at(-1)[2], 2002);
});

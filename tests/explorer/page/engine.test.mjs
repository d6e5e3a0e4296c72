/** The engine of the page against numbers of tokenfield, which golden.py writes. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { readConfig } from "../../../tokenfield/explorer/page/engine/config.js";
import { quickExp } from "../../../tokenfield/explorer/page/engine/exponential.js";
import { SphereFlow } from "../../../tokenfield/explorer/page/engine/flow.js";
import { Tsit5 } from "../../../tokenfield/explorer/page/engine/integrator.js";
import { makeAttention } from "../../../tokenfield/explorer/page/engine/kernels.js";
import { clusters, energy, meanCosine, modeAmplitudes, order } from "../../../tokenfield/explorer/page/engine/measure.js";
import { sphereKick } from "../../../tokenfield/explorer/page/engine/noise.js";
import { makeNorm } from "../../../tokenfield/explorer/page/engine/norms.js";
import { Runner } from "../../../tokenfield/explorer/page/engine/runner.js";
import { makeTokens, makeWeights } from "../../../tokenfield/explorer/page/engine/starts.js";
import { stationaryOrder } from "../../../tokenfield/explorer/page/theory.js";

const golden = JSON.parse(readFileSync(process.env.TOKENFIELD_GOLDEN, "utf8"));
const { n, seed } = golden;
const name = (c) => `${JSON.stringify(c.attention)} ${JSON.stringify(c.norm)} d=${c.d}`;

/** Largest difference between two lists, relative to the largest number if that is above 1. */
function gap(found, wanted) {
  assert.equal(found.length, wanted.length);
  const scale = Math.max(1, ...wanted.map(Math.abs));
  return Math.max(...wanted.map((value, k) => Math.abs(value - found[k]))) / scale;
}

function flowOf(c) {
  const { attention } = readConfig({ attention: c.attention, tokens: { n, d: c.d } }).config;
  return new SphereFlow(makeAttention(attention, c.d), makeNorm(c.norm), makeWeights(c.weights, n));
}

function begin(c) {
  return makeTokens({ kind: "sphere", n, d: c.d, seed }).x;
}

test("velocities are those of tokenfield to 1e-12", () => {
  assert.ok(golden.velocities.length > 40);
  for (const c of golden.velocities) {
    const flow = flowOf(c), y = new Float64Array(flow.size), dy = new Float64Array(flow.size);
    flow.after = c.norm.tau !== undefined && c.t > c.norm.tau;
    y.set(begin(c));
    y.set(c.lengths, n * c.d);
    flow.velocity(c.t, y, dy);
    assert.ok(gap(dy.slice(0, n * c.d), c.theta) <= 1e-12, `${name(c)}: ${gap(dy.slice(0, n * c.d), c.theta)}`);
    if (c.lengths.length) assert.ok(gap(dy.slice(n * c.d), c.r) <= 1e-12, name(c));
  }
});

test("ALiBi's slope", () => {
  const c = golden.alibi, dy = new Float64Array(n * 3);
  const attention = makeAttention({ kind: "softmax", beta: c.beta, slope: c.slope, causal: true }, 3);
  const flow = new SphereFlow(attention, makeNorm({ kind: "post" }), makeWeights(null, n));
  flow.velocity(0, begin(c), dy);
  assert.ok(gap(dy, c.theta) <= 1e-12);
});

test("trajectories to T = 10 are those of tokenfield to 1e-6", () => {
  for (const c of golden.trajectories) {
    const { config } = readConfig({ ...c, tokens: { kind: "sphere", n, d: c.d, seed } });
    const runner = new Runner(config);
    runner.stepper.rtol = 1e-10;
    runner.stepper.atol = 1e-12;
    runner.advance(config.norm.tau ?? 10);
    runner.stepper.rtol = 1e-10;
    runner.stepper.atol = 1e-12;
    while (runner.stepper.t < 10) assert.ok(runner.stepper.step(10), name(c));
    runner.advance(10);
    runner.read();
    const x = runner.x.map((value, k) => value * runner.r[Math.floor(k / c.d)]);
    assert.ok(gap(x, c.x) <= 1e-6, `${name(c)}: ${gap(x, c.x)}`);
  }
});

test("default tolerances and values between steps are good enough for a picture", () => {
  const c = golden.trajectories[0];
  const { config } = readConfig({ ...c, tokens: { kind: "sphere", n, d: c.d, seed } });
  const runner = new Runner(config), fine = new Tsit5(flowOf(c), 0, begin(c), 1e-11, 1e-13);
  for (const t of [0.37, 1.9, 4.4]) {
    runner.advance(t);
    runner.read();
    while (fine.t < t) fine.step(t);
    assert.ok(gap(runner.x, [...fine.y]) <= 3e-5, `t = ${t}: ${gap(runner.x, [...fine.y])}`);
    for (let i = 0; i < n; i++) assert.ok(Math.abs(Math.hypot(...runner.x.slice(3 * i, 3 * i + 3)) - 1) < 1e-14);
  }
});

test("tokens that have met move as one, and nothing changes", () => {
  const config = readConfig({
    attention: { kind: "softmax", beta: 6 },
    tokens: { kind: "clusters", n: 40, d: 3, k: 3, spread: 0.05, seed: 1 },
  }).config;
  const runner = new Runner(config);
  const alone = new Tsit5(runner.flow, 0, runner.x, 1e-9, 1e-12);
  runner.stepper.rtol = 1e-9;
  runner.advance(30);
  while (alone.t < 30) alone.step(30);
  runner.read();
  assert.equal(runner.flow.n, 3);
  assert.ok(Math.abs(runner.flow.weights.reduce((a, b) => a + b) - 1) < 1e-12);
  assert.ok(gap(runner.x, [...alone.y]) <= 2e-5, `${gap(runner.x, [...alone.y])}`);
});

test("a waiting pair takes the predicted time, far beyond what small steps could reach", () => {
  const [beta, lifetime] = golden.lifetimes[1];
  const config = readConfig({ attention: { kind: "softmax", beta }, tokens: { kind: "circle", angles: [0, Math.PI / 2] } }).config;
  const runner = new Runner(config);
  const half = (1 + Math.exp(-beta)) / 2, level = (half + 1) / 2;
  runner.advance(lifetime * 0.99);
  assert.ok(runner.frame().energy < level);
  runner.advance(lifetime * 1.01);
  assert.ok(runner.frame().energy > level);
  assert.ok(runner.stepper.steps < 1000);
});

test("starts are those of tokenfield, number by number", () => {
  for (const c of golden.starts) assert.ok(gap(makeTokens(c.tokens).x, c.x) <= 1e-13, JSON.stringify(c.tokens));
});

test("clusters, order, cosine and energy", () => {
  for (const c of golden.observed) {
    const { x, weights } = makeTokens({ kind: "clusters", n: 60, d: c.d, k: 4, spread: c.spread, seed: 2 });
    const found = clusters(x, 60, c.d), m = order(x, weights, c.d);
    assert.equal(found.count, c.count);
    assert.deepEqual([...found.labels], c.labels);
    assert.ok(Math.abs(m - c.order) < 1e-13);
    assert.ok(Math.abs(meanCosine(m, weights) - c.cosine) < 1e-13);
    assert.ok(Math.abs(energy(x, weights, c.d, 6) - c.energy) < 1e-13);
  }
});

test("mode amplitudes of a regular polygon and of one token", () => {
  const { x, weights } = makeTokens({ kind: "circle", angles: [0.2, 0.2 + (2 * Math.PI) / 3, 0.2 - (2 * Math.PI) / 3], d: 2 });
  const found = modeAmplitudes(x, weights, 2, 6);
  [1, 0, 0, 1, 0, 0, 1].forEach((value, k) => assert.ok(Math.abs(found[k] - value) < 1e-14));
  const one = modeAmplitudes(Float64Array.of(0, 0.6, 0.8), Float64Array.of(1), 3, 5);
  for (const value of one) assert.ok(Math.abs(value - 1) < 1e-14);
  const two = modeAmplitudes(Float64Array.of(1, 0, 0, 0, 1, 0), Float64Array.of(0.5, 0.5), 3, 2); // (1 + P_k(0))/2
  [1, Math.SQRT1_2, 0.5].forEach((value, k) => assert.ok(Math.abs(two[k] - value) < 1e-14));
});

test("a random kick is that of tokenfield", () => {
  for (const c of golden.kicks) {
    const x = Float64Array.from(c.x);
    sphereKick(x, Float64Array.from(c.xi), 0.3, 6, c.d);
    assert.ok(gap(x, c.moved) <= 1e-14);
  }
});

test("noise forgets at the rate (d-1)/kappa and keeps the sphere", () => {
  for (const d of [2, 3]) {
    const config = readConfig({
      attention: { kind: "softmax", beta: 1, V: 0 },
      noise: { kappa: 2 },
      tokens: { kind: "clusters", n: 1000, d, k: 1, spread: 0, seed: 3 },
    }).config;
    const runner = new Runner(config);
    runner.advance(0.5);
    const m = runner.frame().order;
    assert.ok(Math.abs(m - Math.exp((-(d - 1) * 0.5) / 2)) < 0.03, `d = ${d}: ${m}`); // three standard errors
    assert.ok(Math.abs(Math.hypot(...runner.x.slice(0, d)) - 1) < 1e-14);
  }
});

test("the quick exponential", () => {
  for (let x = -700; x <= 40; x += 0.37) assert.ok(Math.abs(quickExp(x) / Math.exp(x) - 1) < 2e-15, `${x}`);
  assert.equal(quickExp(-800), 0);
});

test("Kuramoto: at beta = 0 two tokens at a right angle obey rho = tanh t", () => {
  const runner = new Runner(readConfig({ attention: { kind: "unnormalized", beta: 0 }, tokens: { kind: "circle", angles: [0, Math.PI / 2] } }).config);
  runner.advance(1);
  runner.read();
  assert.ok(Math.abs(runner.x[0] * runner.x[2] + runner.x[1] * runner.x[3] - Math.tanh(1)) < 1e-5);
});

test("noisy tokens reach the order of the stationary law, which theory gives", () => {
  const kappa = 2.5, raw = { attention: { kind: "unnormalized", beta: 1 }, noise: { kappa }, tokens: { kind: "clusters", n: 300, d: 2, k: 1, spread: 0.3, seed: 0 } };
  const runner = new Runner(readConfig(raw).config);
  let sum = 0;
  for (let k = 0; k < 60; k++) {
    runner.advance(6 + 0.2 * k);
    sum += order(runner.state, runner.weights, 2) / 60;
  }
  assert.ok(Math.abs(sum - stationaryOrder(1, kappa, 2, "unnormalized")) < 0.03, `${sum}`); // 0.7816
});

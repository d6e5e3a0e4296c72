/** The predictions of the page against tokenfield.theory. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { readConfig } from "../../../tokenfield/explorer/page/engine/config.js";
import { Runner } from "../../../tokenfield/explorer/page/engine/runner.js";
import { History } from "../../../tokenfield/explorer/page/history.js";
import { PANELS } from "../../../tokenfield/explorer/page/panels.js";
import * as theory from "../../../tokenfield/explorer/page/theory.js";

const golden = JSON.parse(readFileSync(process.env.TOKENFIELD_GOLDEN, "utf8"));
const { theory: numbers } = golden;

function near(found, wanted, tolerance = 1e-11) {
  assert.ok(Math.abs(found - wanted) <= tolerance * Math.max(Math.abs(wanted), 1e-3), `${found} for ${wanted}`);
}

const CASES = {
  multiplier: ([k, beta, d, value]) => near(theory.logMultiplier(k, beta, d), value),
  growth: ([beta, d, kind, rates]) => theory.growthRates(beta, d, kind, 8).forEach((rate, k) => near(rate, rates[k])),
  first: ([beta, d, k]) => assert.equal(theory.firstClusters(beta, d), k),
  kappa: ([beta, d, kind, value]) => near(theory.criticalKappa(beta, d, kind), value),
  star: ([d, value]) => near(theory.betaStar(d), value),
  merge: ([rho0, rho1, beta, masses, kind, value]) => near(theory.logMergeTime(rho0, rho1, beta, masses, kind), value),
  collapse: ([n, beta, norm, kind, value]) => near(theory.timeToCosine(0.999, n, beta, norm, kind, 0.1), value, norm.kind === "mix" ? 1e-4 : 1e-9),
  layer: ([rho, n, beta, value]) => near(theory.layerContraction(rho, n, beta), value, 1e-9),
  gamma: ([rho, value]) => near(theory.criticalGamma(rho), value),
  order: ([beta, kappa, d, kind, value]) => near(theory.stationaryOrder(beta, kappa, d, kind), value, d === 3 ? 2e-4 : 1e-7),
  influence: ([n, t, slope, row]) => theory.flowInfluence(n, t, slope).forEach((value, j) => near(value, row[j], 1e-4)),
  recency: ([slope, rate, value]) => near(theory.recencyEnds(slope, rate), value),
};

for (const [name, check] of Object.entries(CASES))
  test(name, () => {
    assert.ok(numbers[name].length > 0);
    numbers[name].forEach(check);
  });

test("lifetime of a pair as in tokenfield predict", () => {
  for (const [beta, value] of golden.lifetimes) near(Math.exp(theory.logMergeTime(0, theory.halfWayCosine(0, beta), beta)), value, 1e-9);
});

test("the equiangular curve ends where the time to a cosine says, and passes its own points", () => {
  const curve = theory.equiangularCurve(8, 2, { kind: "post" }, "softmax", 0.2);
  near(curve.times.at(-1), theory.timeToCosine(0.999, 8, 2, { kind: "post" }, "softmax", 0.2), 1e-8);
  near(curve.times[300], theory.timeToCosine(curve.rho[300], 8, 2, { kind: "post" }, "softmax", 0.2), 1e-8);
});

test("influence adds up to 1", () => near(theory.flowInfluence(40, 5, 1.5).reduce((a, b) => a + b), 1));

test("order parameter and energy at equal angles", () => {
  for (const { n, beta, rho, order, energy } of golden.equal) {
    near(theory.equiangularOrder(rho, n), order);
    near(theory.equiangularEnergy(rho, n, beta), energy);
  }
});

test("energy of uniform tokens, and their attention to themselves", () => {
  for (const { d, beta, energy, own } of golden.uniform) {
    near(theory.uniformEnergy(Infinity, beta, d), energy, 1e-9);
    near(theory.attentionToSelf(10 ** 6, beta, d), own, 1e-8);
    near(theory.uniformEnergy(4, beta, d), 1 / 4 + (3 / 4) * energy, 1e-9);
  }
});

test("the order parameter of the Kuramoto model", () => {
  for (const [r0, t, r] of golden.kuramoto) near(theory.kuramotoOrder(r0, t), r, 1e-7);
});

test("attention of clusters to themselves", () => {
  const { masses, cosines, beta, own } = golden.own;
  own.forEach((value, a) => near(theory.ownAttention(a, masses, cosines, beta), value));
});

/** A run whose beta goes from 4 to 1 at time 1, and which has gone on until time 3. */
function changedRun(norm, tokens, beta = [4, 1]) {
  const of = (b) => readConfig({ attention: { kind: b ? "softmax" : "unnormalized", beta: b }, norm, tokens }).config;
  const runner = new Runner(of(beta[0])), history = new History(), run = { config: of(beta[1]), history, color: null };
  const take = () => {
    const frame = runner.frame();
    Object.assign(run, { frame, x: Float32Array.from(runner.x) });
    return frame;
  };
  for (let k = 0; k <= 30; k++) {
    runner.advance(k / 10);
    history.add(take(), run.x, NaN, 0, true);
    if (k === 10) {
      history.change(run.frame, run.x, NaN);
      runner.setModel(run.config);
    }
  }
  return run;
}

const theme = { theory: "violet", line: "blue", second: "orange", grid: "gray", palette: [], single: [0, 0, 0] };
const predicted = (name, run) => PANELS[name].make({ runs: [run], theme, log: false }).spec.lines.filter(({ color, dash }) => color === "violet" && dash);

test("after a change of the model predictions begin at what was measured then", () => {
  for (const { norm, rho, end } of golden.changed) {
    const run = changedRun(norm, { x: [[1, 0, 0], [0, 1, 0], [0, 0, 1]] }), [curve] = predicted("cosines", run);
    near(curve.x[0], 1);
    near(curve.y[0], rho, 2e-5);
    near(curve.x.at(-1), end, 2e-5);
    for (const [name, key] of [["cosines", "cosine"], ["order", "order"], ["energy", "energy"]]) {
      const [{ x, y }] = predicted(name, run), { samples } = run.history;
      assert.ok(samples.filter(({ t }) => t > 1).length === 20);
      for (const sample of samples.filter(({ t }) => (name === "energy" ? t > 1 : t >= 1))) { // at time 1 the energy has two values, of both betas
        const k = Math.max(0, x.findIndex((t) => t >= sample.t)), part = k ? (sample.t - x[k - 1]) / (x[k] - x[k - 1]) : 0;
        const found = k ? y[k - 1] + part * (y[k] - y[k - 1]) : y[0];
        assert.ok(Math.abs(found - sample[key]) < 3e-5, `${name}: ${found} for ${sample[key]}`); // chords of the curve: 1.7e-5
      }
    }
  }
});

test("the Kuramoto curve begins at the last change too, and rates are those of the new beta", () => {
  const run = changedRun({ kind: "post" }, { kind: "sphere", n: 400, d: 2, seed: 5 }, [1, 0]), [{ x, y }] = predicted("order", run);
  const { begin, samples } = run.history;
  assert.equal(begin.t, 1);
  near(x[0], 1);
  near(y[0], begin.order);
  near(y.at(-1), samples.at(-1).order, 0.05); // finitely many tokens
  assert.ok(Math.abs(theory.kuramotoOrder(samples[0].order, 3) / samples.at(-1).order - 1) > 0.05); // a curve from the start is wrong
});

test("a model that the page does not know has no predictions", () => {
  const run = changedRun({ kind: "post" }, { x: [[1, 0, 0], [0, 1, 0], [0, 0, 1]] });
  run.config = { ...run.config, foreign: true };
  for (const name of ["energy", "order", "clusters", "cosines", "modes", "attention"]) {
    assert.deepEqual(PANELS[name].make({ runs: [run], theme, log: false }).marks, [], name);
    assert.deepEqual(name === "modes" || name === "attention" ? [] : predicted(name, run), [], name);
  }
});

test("tokens in clusters attend to their own as theory says", () => {
  const { config } = readConfig({ attention: { beta: 3 }, tokens: { kind: "clusters", n: 30, d: 3, k: 3, spread: 0.001, seed: 1 } });
  const runner = new Runner(config), frame = runner.frame(), run = { config, frame, x: Float32Array.from(runner.x), history: new History() };
  const [{ label, when }] = PANELS.attention.make({ runs: [run], theme, log: false }).marks;
  near(Number(when.match(/measured ([\d.]+)/)[1]), Number(label.match(/cluster ([\d.]+)/)[1]), 2e-3);
});

test("Gaussians: covariance, mean, blow-up and limit", () => {
  for (const { A, v, mean, cov, t, blowup, covs, end, limit } of golden.gaussians) {
    const start = [cov[0][0], cov[0][1], cov[1][1]], found = theory.gaussianCovariance(A, v, start, t);
    [0, 1, 3].forEach((k, j) => {
      near(found[j], covs[0][k], 1e-10);
      near(found[j], covs[1][k], 1e-8);
    });
    const times = Array.from({ length: 41 }, (_, k) => (k / 40) * t);
    theory.gaussianMeans(A, v, mean, start, times).at(-1).forEach((value, k) => near(value, end[k], 1e-8));
    if (blowup) near(theory.gaussianBlowup(A, v, start), blowup, 1e-10);
    else assert.equal(theory.gaussianBlowup(A, v, start), Infinity);
    if (limit) [0, 1, 3].forEach((k, j) => near(theory.gaussianCovariance(A, v, start, 1e9)[j] + 1, limit[k] + 1, 1e-7));
  }
});

test("plots of a Gaussian show its closed form", () => {
  const [{ A, v, mean, cov, t, covs, end }] = golden.gaussians, history = new History();
  const frame = (time, m, s) => ({ kind: 2, n: 1, d: 2, time, logTime: Math.log(time), energy: NaN, order: NaN, clusters: NaN, x: Float32Array.of(...m, ...s), weights: null, labels: null });
  history.add(frame(2, mean, cov.flat()), null, NaN, 0, true);
  history.add(frame(2 + t, end, covs[0]), null, NaN, 0, true);
  const run = { history, frame: frame(2 + t, end, covs[0]), config: readConfig({}).config, tables: { attention: { kind: "softmax", A, V: v }, norm: { kind: "none" } } };
  const [big, small] = predicted("deviations", run), [x, y] = predicted("mean", run);
  near(big.x[0], 2);
  near(big.y.at(-1) ** 2 + small.y.at(-1) ** 2, covs[0][0] + covs[0][3], 1e-6);
  near(big.y.at(-1) * small.y.at(-1), Math.sqrt(covs[0][0] * covs[0][3] - covs[0][1] ** 2), 1e-5);
  [x, y].forEach((line, k) => near(line.y.at(-1), end[k], 1e-6));
  run.tables = { ...run.tables, norm: { kind: "post" } };
  assert.deepEqual(PANELS.deviations.make({ runs: [run], theme, log: false }).marks, []);
});

/** The predictions of the page against tokenfield.theory. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

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

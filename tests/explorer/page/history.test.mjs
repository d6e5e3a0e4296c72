/** What the page measures along a run: growth rates of modes against theory. */

import assert from "node:assert/strict";
import test from "node:test";

import { readConfig } from "../../../tokenfield/explorer/page/engine/config.js";
import { Runner } from "../../../tokenfield/explorer/page/engine/runner.js";
import { History } from "../../../tokenfield/explorer/page/history.js";
import { firstClusters, growthRates, interestingModes } from "../../../tokenfield/explorer/page/theory.js";

/** The history of a run until its ripples are no longer small. */
function followed(config, then = null) {
  const { attention, tokens } = config, runner = new Runner(config), history = new History(interestingModes(attention.beta, tokens.d));
  for (let step = 0; step < 200 && !history.growth?.over; step++) {
    const frame = runner.frame();
    history.add(frame, frame.x, NaN, 1000 * (step + 1));
    if (then && step === 5) {
      history.change(frame, frame.x, NaN);
      runner.setModel(then);
    }
    runner.advance(runner.t + 0.1);
  }
  return history;
}

for (const [d, beta, n] of [[2, 20, 600], [2, 100, 600], [2, 5, 400], [3, 9, 600]])
  test(`modes grow at the rates of theory: d = ${d}, beta = ${beta}`, () => {
    const { config } = readConfig({ attention: { beta }, tokens: { n, d, seed: 1 } });
    const { growth, modes } = followed(config), rates = growthRates(beta, d, "softmax", modes), most = Math.max(...rates);
    assert.ok(growth.over);
    const known = rates.map((rate, k) => ({ k, rate, found: growth.rates[k] })).filter(({ k, rate, found }) => k > 0 && rate > most / 2 && Number.isFinite(found));
    const off = known.map(({ rate, found }) => Math.abs(found / rate - 1)).sort((a, b) => a - b);
    assert.ok(off.length >= 3 && off[Math.floor(off.length / 2)] < 0.17, String(off));
  });

test("after a change of beta the rates are those of the new one", () => {
  const of = (beta) => readConfig({ attention: { beta }, tokens: { n: 600, d: 2, seed: 1 } }).config, { growth } = followed(of(2), of(20));
  const rates = growthRates(20, 2, "softmax", growth.rates.length - 1), most = Math.max(...rates);
  const off = rates.flatMap((rate, k) => (k > 0 && rate > most / 2 && Number.isFinite(growth.rates[k]) ? [Math.abs(growth.rates[k] / rate - 1)] : [])).sort((a, b) => a - b);
  assert.ok(off.length >= 3 && off[Math.floor(off.length / 2)] < 0.17, String(off));
});

test("the modes that are shown reach beyond the one that grows fastest", () => {
  for (const beta of [null, 0, 1, 20, 100, 1000])
    for (const d of [2, 3]) {
      const modes = interestingModes(beta, d);
      assert.ok(modes >= 12 && modes <= 80 && modes >= 1.5 * firstClusters(beta ?? 0, d));
    }
});

/** Print, as JSON, the Python and the TOML of some runs, and the clusters in which the engine of the page ends. */

import { readConfig } from "../../../tokenfield/explorer/page/engine/config.js";
import { Runner } from "../../../tokenfield/explorer/page/engine/runner.js";
import { toPython, toToml } from "../../../tokenfield/explorer/page/copy.js";

const RUNS = [
  [{ attention: { kind: "softmax", beta: 9 }, tokens: { kind: "sphere", n: 64, d: 3, seed: 0 } }, 12],
  [{ attention: { kind: "unnormalized", A: [[2, 0.5], [0, 1]], V: 0.5 }, norm: { kind: "pre" }, tokens: { x: [[32767, 0], [30000, 9000], [-100, 32000]] } }, 3],
  [{ attention: { kind: "softmax", beta: 3 }, tokens: { x: [[32767, 0, 0], [30000, 9000, 5], [-100, 32000, 70], [0, -7, 32000]], weights: [1, 2, 0.5, 4] } }, 9],
];

const found = RUNS.map(([raw, t1]) => {
  const { config } = readConfig(raw), runner = new Runner(config);
  runner.advance(t1);
  const { labels } = runner.frame(), sizes = [];
  for (const label of labels) sizes[label] = (sizes[label] ?? 0) + 1;
  return { python: toPython(config, t1), toml: toToml(config, t1), sizes, x: raw.tokens.x, weights: raw.tokens.weights ?? null };
});
console.log(JSON.stringify(found));

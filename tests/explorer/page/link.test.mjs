/** Links, frames and stories. */

import assert from "node:assert/strict";
import test from "node:test";

import { decodeFrame, decodeFrames, encodeFrame, isLater } from "../../../tokenfield/explorer/page/frames.js";
import { isForeign, readConfig } from "../../../tokenfield/explorer/page/engine/config.js";
import { DEFAULT_VIEW, readLink, writeLink } from "../../../tokenfield/explorer/page/link.js";
import { PANELS } from "../../../tokenfield/explorer/page/panels.js";
import { forServer, Replay } from "../../../tokenfield/explorer/page/sources.js";
import { clusters } from "../../../tokenfield/explorer/page/engine/measure.js";
import { makeTokens } from "../../../tokenfield/explorer/page/engine/starts.js";
import { visibleGroups } from "../../../tokenfield/explorer/page/views/groups.js";
import { makeAttention, crossAttention } from "../../../tokenfield/explorer/page/engine/kernels.js";
import { asChanges, merged, patched } from "../../../tokenfield/explorer/page/tables.js";
import { thinned } from "../../../tokenfield/explorer/page/views/field.js";
import { STORIES, STORY_NAMES } from "../../../tokenfield/explorer/page/stories.js";

const RAW = [
  {},
  { attention: { kind: "unnormalized", beta: 1.25, causal: true, V: -1 }, noise: { kappa: 3.5 }, tokens: { n: 7, d: 2, seed: 99 } },
  { attention: { kind: "sigmoid", A: [[1, -0.5], [0.25, 2]], V: [[0, 1], [-1, 0]] }, norm: { kind: "mix", tau: 1.5 }, tokens: { kind: "circle", angles: [0.1, -2.5, 3] } },
  { attention: { kind: "hardmax", rule: "others" }, norm: { kind: "ngpt", alpha: 0.5 }, tokens: { kind: "clusters", n: 30, d: 3, k: 3, spread: 0.2, seed: 4 } },
  { attention: { kind: "softmax", beta: 2, causal: true, slope: 3 }, norm: { kind: "sqrt" }, tokens: { x: [[32767, 0, 0], [0, -32767, 5], [-7, 8, 30000]], weights: [1, 2, 0.5] }, t1: 12 },
  { attention: { kind: "l2", beta: 0.5 }, norm: { kind: "peri" }, tokens: { kind: "hemisphere", n: 5, d: 3, seed: 1 } },
];

test("a link gives back the run and the view", () => {
  for (const raw of RAW) {
    const { config, problems } = readConfig(raw);
    assert.deepEqual(problems, []);
    const view = { ...DEFAULT_VIEW, speed: 0.25, log: true, yaw: 1.5, pitch: -0.25, spin: -0.75, trails: false, field: true, compare: "pre", story: "wait", step: 2 };
    const read = readLink(`#${writeLink(config, view)}`, STORY_NAMES);
    assert.deepEqual(read.problems, []);
    assert.deepEqual(view, read.view);
    assert.deepEqual(read.config, raw.attention?.kind === "hardmax" ? { ...config, attention: { ...config.attention, beta: 9 } } : raw.attention?.A ? { ...config, attention: { ...config.attention, beta: 9 } } : config);
  }
});

test("nonsense in a link is replaced by defaults, and each piece is named", () => {
  const { config, view, problems } = readLink("#kernel=__proto__&beta=1e999&A=1,2,3&n=1.5&d=7&seed=-1&norm=constructor&kappa=0&x=%%%&speed=fast&log=2&vs=toString&story=none&step=99&%3Cb%3E=1", STORY_NAMES);
  const plain = readConfig({}).config;
  assert.deepEqual(config, plain);
  assert.deepEqual(view, DEFAULT_VIEW);
  for (const word of ["attention.kind", "attention.beta", "attention.A", "norm.kind", "noise.kappa", "x must", "speed", "log", "vs", "story", "unknown key"])
    assert.ok(problems.some((line) => line.includes(word)), `${word} is not in ${problems.join("; ")}`);
});

test("three thousand random links never throw and always give a run", () => {
  let state = 1;
  const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
  const keys = "kernel beta A V causal slope rule norm tau alpha kappa x w angles start n d seed k spread t1 speed log yaw pitch trails field vs story step zz".split(" ");
  const values = ["", "0", "1", "-1", "2", "3", "9e99", "NaN", "softmax", "hardmax", "mix", "clusters", "1,2,3,4", "1,2,3,4,5,6,7,8,9", ",,,", "AAAA", "_-", "%", "\u0000", "x".repeat(500)];
  for (let i = 0; i < 3000; i++) {
    const parts = Array.from({ length: 1 + Math.floor(random() * 6) }, () => `${keys[Math.floor(random() * keys.length)]}=${encodeURIComponent(values[Math.floor(random() * values.length)])}`);
    const { config, view } = readLink(`#${parts.join("&")}`, STORY_NAMES);
    assert.deepEqual(readConfig(config).problems, [], parts.join("&"));
    assert.ok(Number.isFinite(view.speed) && Number.isFinite(view.yaw));
  }
});

test("frames survive their binary form; bytes that are no frame are refused", () => {
  const frame = { kind: 0, n: 2, d: 3, time: 1.5, logTimeUnit: -40, energy: NaN, order: 0.25, clusters: 2, x: Float32Array.of(1, 0, 0, 0, 1, 0), weights: Float32Array.of(0.25, 0.75), labels: Int32Array.of(1, 0) };
  const buffer = encodeFrame(frame);
  assert.equal(buffer.byteLength, 56 + 4 * 6 + 8 + 8);
  assert.deepEqual(decodeFrame(buffer).frame, { ...frame, logTime: Math.log(1.5) - 40 });
  const two = new Uint8Array(2 * buffer.byteLength);
  two.set(new Uint8Array(buffer));
  two.set(new Uint8Array(buffer), buffer.byteLength);
  assert.equal(decodeFrames(two.buffer).length, 2);
  assert.ok(Number.isNaN(decodeFrame(encodeFrame({ ...frame, clusters: 0xffffffff })).frame.clusters));
  assert.throws(() => decodeFrame(buffer.slice(0, 60)), /cut short/);
  assert.throws(() => decodeFrame(new ArrayBuffer(80)), /not a frame/);
  const replay = new Replay({ frames: Buffer.from(two.buffer).toString("base64"), config: null });
  const seen = [];
  replay.onframe = (each) => seen.push(each.time);
  replay.start();
  replay.step();
  assert.deepEqual(seen, [1.5, 1.5]);
});

/** Return the data of a replay with one token at times {time, unit}. */
function replayAt(times) {
  const one = (time, logTimeUnit) => ({ kind: 0, n: 1, d: 2, time, logTimeUnit, energy: 1, order: 1, clusters: 1, x: Float32Array.of(1, 0), weights: null, labels: null });
  return { frames: Buffer.concat(times.map(([time, unit]) => Buffer.from(encodeFrame(one(time, unit))))).toString("base64"), config: null };
}

/** Play a replay with a clock of our own, a tenth of a second a tick; return the frames that each tick shows. */
function ticked(replay, pace, count) {
  const shown = [];
  replay.onframe = ({ logTime }) => shown.push(logTime);
  replay.start();
  Object.assign(replay, { pace, playing: true });
  const seen = [];
  for (let k = 0; k < count; k++) {
    replay.before = performance.now() - 1000; // more than the most that a tick may take
    replay.playing = true;
    replay.tick();
    clearTimeout(replay.timer);
    seen.push(Math.round(shown.at(-1)));
  }
  return seen;
}

test("a replay goes through decades at an even pace, and through times that no number holds", () => {
  const decades = new Replay(replayAt([[0, 0], [1, 0], [10, 0], [100, 0], [1e3, 0], [1e6, 0]]));
  assert.deepEqual(decades.usualPace(6), { log: true, speed: 1 });
  assert.deepEqual(ticked(decades, { log: true, speed: 5 }, 14), [0, 0, 2, 2, 5, 5, 7, 7, 7, 7, 7, 7, 14, 14]); // half a decade a tick
  const long = new Replay(replayAt([[0, 0], [1, 0], [1, 1000], [1, 1000 + Math.LN10]]));
  assert.deepEqual(long.frames.map(({ time }) => time), [0, 1, Infinity, Infinity]);
  const seen = ticked(long, { log: false, speed: 1000 }, 6); // a hundred decades a tick
  assert.deepEqual(seen, [0, 0, 0, 0, 1002, 1002]);
  assert.ok(isLater(long.frames[3], long.frames[2]) && !isLater(long.frames[2], long.frames[3]));
  const plain = new Replay(replayAt([[0, 0], [1, 0], [2, 0]]));
  assert.deepEqual(plain.usualPace(4), { log: false, speed: 0.5 });
  assert.deepEqual(decodeFrame(encodeFrame({ ...long.frames[1], time: 1, logTimeUnit: 3 })).frame.time, Math.exp(3));
});

test("groups are seen where tokens gather, and not where they are spread by chance", () => {
  for (const d of [2, 3]) {
    const uniform = makeTokens({ kind: "sphere", n: 400, d, seed: 1 });
    const spread = visibleGroups(Float32Array.from(uniform.x), null, 400, d);
    assert.ok(spread.labels.filter((label) => label >= 0).length < 40);
    const gathered = makeTokens({ kind: "clusters", n: 400, d, k: 4, spread: 0.02, seed: 2 }), x = Float32Array.from(gathered.x);
    const { labels, count } = visibleGroups(x, null, 400, d), { labels: own } = clusters(gathered.x, 400, d, 0.02);
    assert.equal(count, 4);
    for (let i = 0; i < 400; i++) for (let j = 0; j < i; j++) if (labels[i] >= 0 && labels[j] >= 0) assert.equal(labels[i] === labels[j], own[i] === own[j]);
  }
  assert.deepEqual([...visibleGroups(Float32Array.of(1, 0, 1, 0, -1, 0), null, 3, 2).labels], [0, 0, -1]);
});

test("eight stories of three or four steps, each of them a run that can be made", () => {
  assert.equal(STORIES.length, 8);
  for (const { name, steps } of STORIES) {
    assert.ok(steps.length >= 3 && steps.length <= 4, name);
    for (const step of steps) {
      assert.deepEqual(readConfig(step.config).problems, [], name);
      assert.ok(step.show in PANELS && step.text.length > 40, name);
    }
  }
});

test("what the server is sent has the keys of a run file", () => {
  for (const raw of RAW) {
    const sent = forServer({ ...readConfig(raw).config, foreign: false });
    assert.ok(!("foreign" in sent) && !("slope" in sent.attention) && sent.noise !== null && sent.t1 !== null);
    assert.deepEqual(sent.attention.positions, raw.attention?.slope ? { kind: "alibi", slope: raw.attention.slope } : undefined);
    assert.ok(!(sent.attention.beta !== undefined && (sent.attention.A || sent.attention.kind === "hardmax")));
    for (const row of sent.tokens.x ?? []) assert.ok(Math.abs(Math.hypot(...row) - 1) < 1e-15);
    if (sent.tokens.weights) assert.ok(Math.abs(sent.tokens.weights.reduce((a, b) => a + b) - 1) < 1e-15);
  }
  assert.deepEqual(forServer({ tokens: { kind: "gaussian" } }), { tokens: { kind: "gaussian" } });
});

test("keys that the page does not know are named, and make a model foreign if they are part of it", () => {
  const of = (raw) => (({ unknown, ...read }) => [unknown, isForeign({ unknown, ...read })])(readConfig(raw));
  assert.deepEqual(of({ attention: { beta: 2 }, t1: 3 }), [[], false]);
  assert.deepEqual(of({ state: { kind: "circle_density" }, rtol: 1e-8, tokens: { n: 5, axis: 1 } }), [["state", "rtol", "tokens.axis"], false]);
  assert.deepEqual(of({ attention: { beta: 2, heads: [] } }), [["attention.heads"], true]);
  assert.deepEqual(of({ context: { n: 3 }, mlp: null }), [["context"], true]);
  assert.equal(of({ norm: { kind: "none" } })[1], true);
  assert.deepEqual(of(readConfig({}).config), [[], false]);
});

test("changes name what was changed, and nothing else", () => {
  const { config } = readConfig({ attention: { kind: "softmax", beta: 2 } });
  assert.deepEqual(asChanges(config, { attention: { beta: 3 } }), { beta: 3 });
  assert.deepEqual(asChanges(config, { attention: { causal: true } }), { causal: true });
  assert.deepEqual(asChanges(config, { norm: { kind: "mix" } }), { norm: { kind: "mix", tau: 2 } });
  assert.deepEqual(asChanges(config, { norm: { tau: 3 } }), { tau: 3 });
  assert.deepEqual(asChanges(config, { norm: { kind: "none" } }), { norm: { kind: "none" } });
  assert.deepEqual(asChanges(config, { noise: { kappa: 4 } }), { kappa: 4 });
  assert.deepEqual(asChanges(config, { noise: null }), { kappa: null });
  assert.deepEqual(asChanges(config, { attention: { kind: "l2", A: null } }), { attention: { kind: "l2", beta: 2, causal: false } });
  assert.deepEqual(asChanges(config, { attention: { kind: "relu" } }), { attention: { kind: "relu", beta: 2 } });
  const A = [[1, 0, 0], [0, 1, 0], [0, 0, 2]], general = readConfig(merged(config, { attention: { A } })).config;
  assert.deepEqual(asChanges(config, { attention: { A } }), { A, beta: null });
  assert.deepEqual(asChanges(general, { attention: { A: null } }), { A: null, beta: 2 });
});

test("tables with changes, as the server makes them", () => {
  const tables = { attention: { kind: "relu", A: "a.npy" }, noise: { kappa: 2, seed: 3 }, tokens: { n: 5 } };
  assert.deepEqual(patched(tables, { beta: 2, A: null, kappa: 3, norm: "pre" }), { attention: { kind: "relu", beta: 2 }, noise: { kappa: 3, seed: 3 }, tokens: { n: 5 }, norm: { kind: "pre" } });
  assert.deepEqual(patched(tables, { kappa: null, tokens: { n: 9 }, state: null }), { attention: tables.attention, tokens: { n: 9 } });
  assert.deepEqual(tables.noise, { kappa: 2, seed: 3 });
});

test("a link has the changes to a run that the page does not know, or all of it", () => {
  const { config } = readConfig({}), changes = { beta: 2, norm: { kind: "none" } }, data = { attention: { kind: "relu" }, tokens: { n: 40, d: 8 } };
  const own = readLink(writeLink(config, DEFAULT_VIEW, { data, changes })), made = readLink(writeLink(config, { ...DEFAULT_VIEW, speed: 2 }, { data, changes: null }));
  assert.deepEqual([own.tables, own.named, own.problems], [{ changes }, false, []]);
  assert.deepEqual([made.tables, made.named, made.view.speed], [{ data, changes: null }, false, 2]);
  assert.equal(writeLink(config, DEFAULT_VIEW, { data, changes: {} }), "");
  assert.equal(readLink(writeLink(config, DEFAULT_VIEW)).named, true);
  for (const text of ["run=3", "run=[]", "changes={", "run=null"]) assert.match(readLink(text).problems.join(), /must be a table of a link/);
});

test("the field of many tokens is that of a part of them, and of few that of all", () => {
  const { x } = makeTokens({ kind: "sphere", n: 30000, d: 3, seed: 2 }), attention = makeAttention({ kind: "softmax", beta: 2 }, 3), y = Float64Array.of(0, 0, 1, 0.6, 0.8, 0);
  const at = (most) => {
    const { x: some, weights } = thinned(Float32Array.from(x), null, 30000, 3, most), out = new Float64Array(6);
    assert.ok(weights.length <= most && Math.abs(weights.reduce((a, b) => a + b) - 1) < 1e-9);
    crossAttention(attention, y, 2, some, weights, out);
    return out;
  };
  const [all, part] = [at(30000), at(2000)];
  all.forEach((value, k) => assert.ok(Math.abs(value - part[k]) < 0.05));
  assert.deepEqual([...thinned(Float32Array.of(1, 0, 0, 1), Float32Array.of(0.25, 0.75), 2, 2).weights], [0.25, 0.75]);
});

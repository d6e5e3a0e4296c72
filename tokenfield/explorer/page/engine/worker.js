/** The worker: runs tokens at the pace that the page asks for and sends frames. */

import { encodeFrame } from "../frames.js";
import { Runner } from "./runner.js";

const BUDGET = 40; // milliseconds of steps between two frames
const PERIOD = 15; // least milliseconds between two frames
const FIRST_TIME = 0.01; // where logarithmic time begins

let runner = null;
let playing = false, speed = 1, log = false;
let waiting = false; // the page has not drawn the last frame yet
let before = 0, timer = null;

function send(flags = {}) {
  const buffer = encodeFrame(runner.frame());
  waiting = true;
  postMessage({ type: "frame", buffer, ...flags }, [buffer]);
}

function loop() {
  timer = null;
  if (!playing || waiting) return;
  const now = performance.now(), elapsed = Math.min(0.1, (now - before) / 1000);
  before = now;
  const t = runner.t;
  let target = log ? Math.max(t, FIRST_TIME) * 10 ** (speed * elapsed) : t + speed * elapsed;
  const end = runner.config.t1 ?? Infinity;
  if (target >= end) [target, playing] = [end, false];
  runner.advance(target, BUDGET);
  if (runner.t < target && end < Infinity) playing = !runner.trouble;
  if (runner.trouble) {
    playing = false;
    postMessage({ type: "error", message: runner.trouble });
  }
  send({ ended: !playing });
}

function schedule() {
  if (timer === null && playing && !waiting) timer = setTimeout(loop, Math.max(0, PERIOD - (performance.now() - before)));
}

const COMMANDS = {
  start({ config }) {
    playing = false;
    runner = new Runner(config);
    send();
  },
  play(message) {
    ({ speed, log } = message);
    if (!playing) before = performance.now();
    playing = true;
    schedule();
  },
  pause() {
    playing = false;
  },
  step() {
    playing = false;
    runner.advance(log ? Math.max(runner.t, FIRST_TIME) * 1.2 : runner.t + 0.1 * speed);
    send();
  },
  set({ config }) {
    runner.setModel(config);
    if (!playing) send();
  },
  drawn() {
    waiting = false;
    schedule();
  },
};

onmessage = ({ data }) => COMMANDS[data.type](data);

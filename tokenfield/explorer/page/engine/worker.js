/** The worker: runs tokens at the pace that the page asks for and sends frames. */

import { encodeFrame } from "../frames.js";
import { Runner } from "./runner.js";

const BUDGET = 40; // milliseconds of steps between two frames
const PERIOD = 8; // least milliseconds between two frames
const AHEAD = 2; // frames that the page has not taken yet: one in reserve, for steps that take long
const FIRST_TIME = 0.01; // where logarithmic time begins

let runner = null;
let playing = false, speed = 1, log = false;
let sent = 0; // frames that the page has not taken yet
let before = 0, timer = null;

function send(flags = {}) {
  const buffer = encodeFrame(runner.frame());
  sent++;
  postMessage({ type: "frame", buffer, ...flags }, [buffer]);
}

function loop() {
  timer = null;
  if (!playing || sent >= AHEAD) return;
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
  schedule();
}

function schedule() {
  if (timer !== null || !playing || sent >= AHEAD) return;
  const wait = PERIOD - (performance.now() - before);
  if (wait > 0) timer = setTimeout(loop, wait);
  else loop();
}

const COMMANDS = {
  start({ config }) {
    playing = false;
    runner = new Runner(config);
    sent = 0;
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
  taken() {
    sent = Math.max(0, sent - 1);
    schedule();
  },
};

onmessage = ({ data }) => COMMANDS[data.type](data);

/**
 * Where frames come from. Every source has start(config, request), play(pace), pause(), step(), set(config, changes), close(), and
 * calls onframe(frame, {ended}), oninfo(info) and onerror(text). A pace is {speed, log};
 * `request` and `changes` are for the server. next() is called before each drawing.
 */

import { decodeFrame, decodeFrames } from "./frames.js";
import { isForeign, readConfig } from "./engine/config.js";

class Source {
  constructor() {
    this.onframe = this.oninfo = this.onerror = () => {};
  }

  /** Give the next frame, if frames wait for the page to draw them. */
  next() {}
}

/** The engine of the page, in a worker. */
export class InPage extends Source {
  constructor(workerText) {
    super();
    this.url = workerText ? URL.createObjectURL(new Blob([workerText], { type: "text/javascript" })) : null;
    this.worker = this.url
      ? new Worker(this.url)
      : new Worker(new URL("./engine/worker.js", import.meta.url), { type: "module" });
    this.worker.onmessage = ({ data }) => {
      if (data.type === "error") this.onerror(data.message);
      else this.queue.push(data);
    };
    this.worker.onerror = (event) => this.onerror(`the engine stopped: ${event.message ?? "the worker could not start"}`);
    this.queue = [];
    this.editable = true;
  }

  start(config) {
    this.queue.length = 0;
    this.worker.postMessage({ type: "start", config });
  }

  play(pace) {
    this.worker.postMessage({ type: "play", ...pace });
  }

  pause() {
    this.worker.postMessage({ type: "pause" });
  }

  step() {
    this.worker.postMessage({ type: "step" });
  }

  set(config) {
    this.worker.postMessage({ type: "set", config });
  }

  /** Give one frame for each drawing: the worker computes the one after the next meanwhile. */
  next() {
    const data = this.queue.shift();
    if (!data) return;
    this.worker.postMessage({ type: "taken" });
    this.onframe(decodeFrame(data.buffer).frame, { ended: data.ended === true });
  }

  close() {
    this.worker.terminate();
    if (this.url) URL.revokeObjectURL(this.url);
  }
}

/** The engine of tokenfield, behind a websocket. */
export class Live extends Source {
  constructor(address) {
    super();
    this.waiting = [];
    this.editable = true;
    try {
      this.socket = new WebSocket(address);
    } catch (error) {
      setTimeout(() => this.onerror(`This browser has no websockets, which the page needs to hear from the simulator (${error.message}). A page from --export needs none.`));
      return;
    }
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => this.waiting.splice(0).forEach((text) => this.socket.send(text));
    this.socket.onclose = () => this.closed || this.onerror("the server has gone: start tokenfield explore again");
    this.socket.onmessage = ({ data }) => {
      try {
        if (typeof data === "string") this.hear(JSON.parse(data));
        else this.onframe(decodeFrame(data).frame, { ended: false });
      } catch (error) {
        this.onerror(`a message of the server was not understood: ${error.message}`);
      }
    };
  }

  hear(message) {
    if (message.type === "error") this.onerror(String(message.message));
    else if (message.type === "info") this.oninfo(message);
    else if (message.type === "end") this.oninfo({ ended: true, reason: String(message.reason) });
  }

  send(message) {
    const text = JSON.stringify(message);
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(text);
    else this.waiting.push(text);
  }

  /** Start a config of the page, or what `request` says: {config}, tables, or {changes} to the run file of the server. */
  start(config, request = null) {
    this.send({ type: "start", ...(request ?? { config: forServer(config) }) });
  }

  play({ speed, log }) {
    this.send({ type: "play", speed, log });
  }

  pause() {
    this.send({ type: "pause" });
  }

  step() {
    this.send({ type: "step" });
  }

  /** Change the model; null clears what the server knows. */
  set(config, changes) {
    this.send({ type: "set", ...changes });
  }

  close() {
    this.closed = true;
    this.socket?.close();
  }
}

/** Return a config with the keys that a TOML run file has; tokens placed by hand get length 1. */
export function forServer(config) {
  const { foreign, ...result } = config; // known to this page only
  if (result.attention) {
    const { slope, ...attention } = result.attention;
    if (slope) attention.positions = { kind: "alibi", slope };
    const general = attention.A || attention.kind === "hardmax";
    const kept = Object.entries(attention).filter(([key, value]) => value !== null && !(general && key === "beta"));
    result.attention = Object.fromEntries(kept);
  }
  if (!result.noise) delete result.noise;
  if (result.t1 === null) delete result.t1;
  if (result.tokens?.kind === "circle") result.tokens = { kind: "circle", angles: result.tokens.angles };
  if (result.tokens?.x) {
    const x = result.tokens.x.map((row) => row.map((value) => value / Math.hypot(...row))), { weights } = result.tokens;
    const total = weights?.reduce((sum, w) => sum + w, 0);
    result.tokens = weights ? { x, weights: weights.map((w) => w / total) } : { x };
  }
  return result;
}

/** A run that was saved. */
export class Replay extends Source {
  constructor(data) {
    super();
    this.editable = false;
    this.at = 0;
    this.playing = false;
    const bytes = Uint8Array.from(atob(data.frames), (c) => c.charCodeAt(0));
    this.frames = decodeFrames(bytes.buffer);
    if (this.frames.length === 0) throw new Error("the replay has no frames");
    this.config = data.config ?? null;
  }

  /** Return {config, exact}: the config of the run; `exact` is false if the page does not know all of it. */
  readConfig() {
    const known = this.config !== null && typeof this.config === "object";
    const read = readConfig(known ? this.config : {}), { config, problems, unknown } = read;
    return { config: { ...config, foreign: !known || isForeign(read) }, exact: known && !problems.length && !unknown.length && Boolean(this.config.tokens) };
  }

  /** Return the pace at which the whole run takes about `seconds`: in log time if the run covers many powers of ten. */
  usualPace(seconds = 15) {
    const last = this.frames.at(-1), first = this.frames.find((frame) => frame.time > 0) ?? last, decades = (last.logTime - first.logTime) / Math.LN10;
    const log = decades > 4, speed = (log ? decades : last.time) / seconds;
    return { log, speed: Number(Math.max(0.01, speed).toPrecision(3)) };
  }

  start() {
    this.goTo(0);
    this.show();
  }

  goTo(index) {
    this.at = index;
    const { time, logTime } = this.frames[index];
    Object.assign(this, { time, logTime });
  }

  play(pace) {
    if (this.pace?.log !== pace.log) this.goTo(this.at);
    this.pace = pace;
    if (this.at >= this.frames.length - 1) this.start();
    if (this.playing) return;
    this.playing = true;
    this.before = performance.now();
    this.tick();
  }

  /** Show the frames that are due: in time, or at equal steps of its logarithm. */
  tick() {
    if (!this.playing) return;
    const now = performance.now(), elapsed = Math.min(0.1, (now - this.before) / 1000);
    this.before = now;
    const { speed } = this.pace, log = this.pace.log || this.frames.at(-1).time === Infinity;
    if (log) {
      const first = this.frames.find((frame) => frame.time > 0)?.logTime ?? 0;
      this.logTime = Math.max(this.logTime, first - 0.1) + Math.LN10 * speed * elapsed;
    } else this.time += speed * elapsed;
    const due = (frame) => (log ? frame.logTime <= this.logTime : frame.time <= this.time);
    let changed = false;
    while (this.at < this.frames.length - 1 && due(this.frames[this.at + 1])) {
      this.at++;
      changed = true;
    }
    const ended = this.at >= this.frames.length - 1;
    if (ended) this.playing = false;
    if (changed || ended) this.show(ended);
    if (this.playing) this.timer = setTimeout(() => this.tick(), 16);
  }

  show(ended = false) {
    this.onframe(this.frames[this.at], { ended });
  }

  pause() {
    this.playing = false;
    clearTimeout(this.timer);
  }

  step() {
    this.pause();
    this.goTo(Math.min(this.frames.length - 1, this.at + 1));
    this.show();
  }

  set() {}

  close() {
    this.pause();
  }
}

/** Runs of the page: where they come from, how they start, change and are played. */

import { make } from "../dom.js";
import { dimension, effectiveBeta, isForeign, readConfig } from "../engine/config.js";
import { GAUSSIAN, isLater, TOKENS } from "../frames.js";
import { History } from "../history.js";
import { forServer, InPage, Live, Replay } from "../sources.js";
import { asChanges, merged, patched } from "../tables.js";
import { interestingModes } from "../theory.js";

/** Methods of App: app.js adds them to the class. */
export const runsMethods = {
  makeSource() {
    if (this.mode === "live") {
      const address = this.options.socket ?? `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws${location.search}`;
      return new Live(address);
    }
    return new InPage(this.options.worker);
  },

  async beginReplay() {
    try {
      const data = this.options.replay ?? (await (await fetch(this.options.replayUrl)).json());
      const source = new Replay(data);
      const { config, exact } = source.readConfig();
      this.config = config;
      this.root.classList.toggle("inexact", !exact);
      this.runs = [Object.assign(this.makeRun(0, source, this.config), { tables: source.config ?? {} })];
      Object.assign(this.view, source.usualPace());
      this.root.classList.add("replay");
      this.refresh();
      source.start();
      if (!this.still) this.play();
    } catch (error) {
      this.say(`The run cannot be replayed: ${error.message}`, true);
    }
  },

  makeRun(index, source, config) {
    const run = { index, source, config, tables: config, frame: null, x: null, history: newHistory(config) };
    source.onframe = (frame, { ended }) => this.take(run, frame, ended);
    source.onerror = (text) => this.say(text, true);
    source.oninfo = (info) => {
      if (info.ended) {
        this.say(`The run has ended: ${info.reason}.`);
        this.pause();
      } else if (!index) this.hear(info);
    };
    return run;
  },

  /** Take what the server says of a run: its run file, and the kernels and norms that it has. */
  hear(info) {
    const before = this.info;
    this.info = info;
    this.offer(this.parts.kernel, info.names);
    this.offer(this.parts.norm, info.norms);
    if (!before || (this.tables && (before.n !== info.n || before.d !== info.d))) this.refresh();
  },

  /** Show the run of some tables of a run file, of which the page may know only a part. */
  takeTables(tables) {
    const read = readConfig(tables.data), known = !read.problems.length && !read.unknown.length;
    this.tables = known && !tables.changes ? null : tables;
    this.config = { ...read.config, foreign: isForeign(read) };
  },

  /** Apply changes to the tables of a run. */
  changeTables(changes) {
    const { data, changes: before } = this.tables ?? { data: forServer(this.config), changes: null };
    this.takeTables({ data: patched(data, changes), changes: before && { ...before, ...changes } });
  },

  /** Return what to ask the server for, if the page does not know the whole run: with another norm for the one beside. */
  request(index) {
    if (!this.tables) return null;
    const { data, changes } = this.tables, beside = index ? { norm: { kind: this.view.compare }, kappa: null } : {};
    return changes ? { changes: { ...changes, ...beside } } : { config: patched(data, beside) };
  },

  /** Start from the beginning with the current config, beside another norm if that is wanted. */
  start(keepStory = false) {
    if (this.mode === "replay") {
      const [run] = this.runs;
      run.history = newHistory(run.config);
      this.scene.reset(0);
      run.source.start();
      return;
    }
    if (!keepStory) this.leaveStory();
    const wasPlaying = this.playing || (!this.runs.length && !this.still);
    const configs = [this.config];
    if (this.view.compare && this.view.compare !== this.config.norm.kind) configs.push(this.beside());
    while (this.runs.length > configs.length) this.runs.pop().source.close();
    configs.forEach((config, index) => {
      this.runs[index] ??= this.makeRun(index, this.makeSource(), config);
      const run = this.runs[index];
      Object.assign(run, { config, tables: this.tables?.data ?? config, history: newHistory(config), fresh: true }); // the last frame stays until the first new one
      run.source.start(config, this.request(index));
    });
    this.influence = null;
    if (wasPlaying) this.play();
    else this.pause();
    this.refresh();
    this.remember();
  },

  beside() {
    const { config } = readConfig({ ...this.config, noise: null, norm: { kind: this.view.compare } });
    return { ...config, foreign: this.config.foreign };
  },

  take(run, frame, ended) {
    const wasFresh = run.fresh;
    run.fresh = false;
    if (wasFresh) this.scene.reset(run.index);
    if (!wasFresh && run.history.last && isLater(run.history.last, frame) && !ended) run.history = newHistory(run.config);
    run.frame = frame;
    if (frame.kind !== this.kind) this.showKind(frame);
    this.scene.note(run.index, frame);
    run.x = frame.kind === TOKENS ? this.scene.view(run.index).x : null;
    run.color = this.scene.view(run.index).color;
    run.groups = this.scene.view(run.index).groups?.count ?? NaN;
    run.history.add(frame, run.x, run.groups, performance.now(), ended || !this.playing || this.mode === "replay");
    if (this.turnToTokens && run.x && frame.d === 3) this.faceTokens(run);
    this.dirty = true;
    if (frame.time > 0 && this.stats.firstMotion === null) this.stats.firstMotion = performance.now();
    if (ended && this.playing && run.index === 0) this.pause();
    if (this.sweep && run.index === 0) this.followSweep(frame);
  },

  /** Show the plots and the tools for the kind of frame that comes: tokens, a density or a Gaussian. */
  showKind({ kind, d }) {
    this.kind = kind;
    this.root.classList.toggle("measure", kind !== TOKENS); // there are no tokens to edit
    this.root.classList.toggle("gaussian", kind === GAUSSIAN);
    const which = d > 2 ? " of two coordinates" : "", names = kind === GAUSSIAN ? [`mean, 1 and 2 standard deviations${which}`, `cone of covariances${which}`] : [];
    this.parts.names.replaceChildren(...names.map((text) => make("span", { text })));
    this.arrangePanels();
    this.refresh();
  },

  /** Turn the sphere so that the side to which tokens will gather is in view. */
  faceTokens({ x }) {
    const mean = [0, 0, 0];
    const seen = this.config.attention.causal ? 3 : x.length; // causal tokens gather at the first one
    for (let k = 0; k < seen; k++) mean[k % 3] += x[k];
    this.turnToTokens = false;
    this.phase = 0;
    this.camera.set(Math.atan2(mean[1], mean[0]) + 0.2, 0.7 * Math.asin(mean[2] / (Math.hypot(...mean) || 1)));
  },

  /** Change parts of the tables of the model and go on from the current tokens. */
  setModel(patch) {
    const { config, problems } = readConfig(merged(this.config, patch)), changes = asChanges(this.config, patch);
    const { attention } = patch, about = (index) => (index ? asChanges(this.config, { attention }) : changes);
    if (this.tables || (this.mode === "live" && problems.length)) this.changeTables(changes); // what the page does not know stays
    else {
      problems.forEach((line) => this.say(line));
      this.config = config;
    }
    this.runs.forEach((run, index) => {
      Object.assign(run, { config: index ? this.beside() : this.config, tables: this.tables?.data ?? this.config });
      run.history.change(run.frame, run.x, run.groups);
      run.source.set(run.config, about(index));
    });
    this.dirty = true;
    this.refresh();
    this.remember();
  },

  /** Start from other tokens; `patch` has what differs, if little does. */
  setTokens(tokens, patch = null) {
    const { config, problems } = readConfig({ ...this.config, tokens });
    if (this.tables) {
      const { tokens: table } = forServer({ tokens });
      this.changeTables({ tokens: patch && this.tables.data.tokens ? { ...this.tables.data.tokens, ...patch } : table, state: null });
    } else {
      problems.forEach((line) => this.say(line));
      this.config = config;
    }
    this.start();
  },

  play() {
    this.playing = true;
    this.runs.forEach((run) => run.source.play({ speed: this.view.speed, log: this.view.log }));
    this.showPlaying();
  },

  pause() {
    this.playing = false;
    this.runs.forEach((run) => run.source.pause());
    this.showPlaying();
  },

  step() {
    this.playing = false;
    this.runs.forEach((run) => run.source.step());
    this.showPlaying();
  },

  setPace(patch) {
    Object.assign(this.view, patch);
    if (this.playing) this.play();
    this.refresh();
    this.remember();
  },
};

function newHistory({ attention, tokens }) {
  return new History(interestingModes(effectiveBeta(attention), dimension(tokens)));
}

/** The explorer: its state, and the loop that draws. */

import { clockMethods } from "./app/clock.js";
import { controlsMethods } from "./app/controls.js";
import { guideMethods } from "./app/guide.js";
import { keysMethods } from "./app/keys.js";
import { layoutMethods } from "./app/layout.js";
import { plotsMethods } from "./app/plots.js";
import { pointerMethods } from "./app/pointer.js";
import { runsMethods } from "./app/runs.js";
import { shareMethods } from "./app/share.js";
import { sweepMethods } from "./app/sweep.js";
import { DEFAULT_CONFIG, readConfig } from "./engine/config.js";
import { makeAttention } from "./engine/kernels.js";
import { TOKENS } from "./frames.js";
import { DEFAULT_VIEW, readLink } from "./link.js";
import { STORY_NAMES } from "./stories.js";
import { patched } from "./tables.js";
import { Camera } from "./views/camera.js";

const PLOT_PERIOD = 60; // least milliseconds between the drawings of two plots
const SWING = 0.5, SWING_PERIOD = 38; // radians and seconds: the sphere sways by itself until the reader turns it
const SLOW_FRAME = 17, SLOW_SECONDS = 2; // milliseconds, fewer than 59 frames a second, for so long
/**
 * What is drawn, from the most to the least: pixels along one side, part of each trail, frames between the drawings of two plots,
 * milliseconds between two changes of the clock.
 */
const DETAIL = [
  { quality: 1, trailPart: 1, plotFrames: 4, clockPeriod: 100 },
  { quality: 1, trailPart: 0.5, plotFrames: 12, clockPeriod: 250 },
  { quality: 0.75, trailPart: 0.5, plotFrames: 20, clockPeriod: 250 },
];

/** Show the explorer in an element; return an object with close(). See README.md for the options. */
export function mount(root, options = {}) {
  const app = new App(root, options);
  app.begin();
  return app;
}

class App {
  constructor(root, options) {
    Object.assign(this, { root, options, runs: [], tool: "turn", playing: false, sweep: null, influence: null, gamma: null, wanted: null, tables: null, info: null });
    this.mode = options.mode ?? "page";
    this.still = globalThis.matchMedia?.("(prefers-reduced-motion: reduce)").matches ?? false;
    this.view = { ...DEFAULT_VIEW };
    this.config = readConfig(DEFAULT_CONFIG).config;
    this.camera = new Camera();
    this.stats = { frames: 0, firstMotion: null };
    this.themeChoice = "auto";
    this.listeners = new AbortController();
  }

  begin() {
    this.root.classList.add("tkf");
    this.build();
    this.reduce(this.scene.renderer.software ? 1 : 0);
    const read = this.options.link ? readLink(location.hash, STORY_NAMES) : { given: false, problems: [], view: this.view, config: this.config };
    this.takeLink(read);
    if (this.still) {
      this.view.trails = read.given ? this.view.trails : false;
      this.say("Your system asks for less motion: press Play to start.");
    }
    if (this.mode === "replay") this.beginReplay();
    else if (this.view.story) this.openStory(this.view.story, Math.floor(this.view.step), location.hash.includes("yaw="));
    else this.start();
    if (this.mode !== "replay" && !read.given && !this.tables) this.introduce();
    if (this.options.link)
      addEventListener("hashchange", () => location.hash.slice(1) !== this.written && this.fromLink(), { signal: this.listeners.signal });
    addEventListener("keydown", (event) => this.key(event), { signal: this.listeners.signal });
    let before = 0;
    this.drifting = !this.still && !location.hash.includes("yaw=");
    const stay = () => (this.drifting = false);
    for (const name of ["pointerdown", "keydown"]) this.parts.canvas.addEventListener(name, stay, { signal: this.listeners.signal });
    const loop = (now) => {
      if (this.closed) return;
      this.runs.forEach(({ source }) => source.next());
      if (this.drifting && this.playing && this.dirty) this.sway(Math.min(100, now - before) / 1000);
      this.adapt(now - before);
      before = now;
      this.draw();
      requestAnimationFrame(loop);
    };
    requestAnimationFrame(loop);
  }

  sway(seconds) {
    const from = this.phase ?? 0;
    this.phase = from + (2 * Math.PI * seconds) / SWING_PERIOD;
    this.camera.turn(SWING * (Math.sin(from) - Math.sin(this.phase)), 0);
  }

  close() {
    this.closed = true;
    this.listeners.abort();
    this.runs.forEach((run) => run.source.close());
    this.root.replaceChildren();
  }

  fromLink() {
    const read = readLink(location.hash, STORY_NAMES);
    this.takeLink(read);
    if (this.view.story) this.openStory(this.view.story, Math.floor(this.view.step), location.hash.includes("yaw="));
    else this.start();
  }

  /** Take the run and the view of a link, or the run that the page was given if the link names none. */
  takeLink({ config, view, problems, named, tables }) {
    const { options } = this, live = this.mode === "live";
    Object.assign(this, { config, view, tables: null });
    this.camera.set(view.yaw, view.pitch);
    this.camera.spinTo(view.spin);
    if (live && tables?.data) this.takeTables(tables);
    else if (options.config && !named) {
      const given = readConfig(options.config), unknown = given.unknown.map((key) => `This page does not know ${key} and leaves it out.`);
      this.config = given.config;
      if (live && given.problems.length + unknown.length) this.takeTables({ data: patched(options.config, tables?.changes ?? {}), changes: tables?.changes ?? {} }); // the server may know more
      else [...given.problems, ...unknown].forEach((line) => this.say(line));
    }
    const lost = tables && !this.tables ? ["the run needs tokenfield explore"] : [];
    if (problems.length + lost.length) this.say(`The link was not understood in full, and defaults are used instead: ${[...problems, ...lost].join("; ")}.`);
  }

  /** Draw fewer pixels, shorter trails and fewer plots where the browser cannot keep up, as without a GPU. */
  adapt(interval) {
    if (!this.playing || document.hidden || interval > 1000) return;
    this.pacing = { sum: (this.pacing?.sum ?? 0) + interval, count: (this.pacing?.count ?? 0) + 1 };
    if (this.pacing.sum < 1000) return;
    this.slow = this.pacing.sum / this.pacing.count > SLOW_FRAME ? (this.slow ?? 0) + 1 : 0;
    if (this.slow >= SLOW_SECONDS && this.detail + 1 < DETAIL.length) this.reduce(this.detail + 1);
    this.pacing = null;
  }

  reduce(detail) {
    const { quality, trailPart } = DETAIL[detail];
    this.detail = detail;
    this.slow = 0;
    Object.assign(this.scene, { quality, trailPart });
  }

  drawScene() {
    const { scene, runs, theme, view, parts } = this;
    const items = runs.map((run) => ({ frame: run.frame, attention: view.field && !run.config.foreign && run.frame?.d <= 3 && run.frame.kind === TOKENS ? makeAttention(run.config.attention, run.frame.d) : null }));
    scene.draw(items, theme, { trails: view.trails, field: view.field, chosen: this.chosen, first: this.config.attention.causal });
    const below = `${Math.min(scene.bottom + 8, scene.height - 30).toFixed(0)}px`;
    if (parts.names.style.top !== below) parts.names.style.top = below;
  }

  draw() {
    if (!this.dirty) return;
    this.dirty = false;
    const frame = this.runs[0]?.frame;
    this.drawScene();
    const now = performance.now();
    if (frame && (now - (this.clocked ?? 0) > DETAIL[this.detail].clockPeriod || !this.playing)) this.showClock(frame, now);
    this.root.dataset.frames = String(++this.stats.frames);
    const since = now - (this.plotted ?? 0);
    if (since > 6 * PLOT_PERIOD || (since > PLOT_PERIOD && this.stats.frames >= (this.plotAt ?? 0))) {
      this.plotted = now;
      this.plotAt = this.stats.frames + DETAIL[this.detail].plotFrames;
      this.drawPlots();
    }
    clearTimeout(this.lastPlot); // once no more frames come, all plots show the last one
    this.lastPlot = setTimeout(() => this.drawPlots(true), this.playing ? 8 * PLOT_PERIOD : PLOT_PERIOD);
    this.onpicture?.();
  }
}

Object.assign(
  App.prototype, runsMethods, sweepMethods, guideMethods, shareMethods, layoutMethods, controlsMethods, plotsMethods, clockMethods, pointerMethods, keysMethods,
);

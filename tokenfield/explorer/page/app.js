/** The explorer: state, controls, runs, and the loop that draws. */

import { check, choice, make, slider } from "./dom.js";
import { DEFAULT_CONFIG, dimension, MOST_TOKENS, readConfig, tokenCount } from "./engine/config.js";
import { makeAttention } from "./engine/kernels.js";
import { GRID } from "./engine/starts.js";
import { toPython, toToml } from "./copy.js";
import { History } from "./history.js";
import { GAUSSIAN, isLater } from "./frames.js";
import { measureInfluence } from "./influence.js";
import { DEFAULT_VIEW, readLink, writeLink } from "./link.js";
import { ALWAYS, PANELS } from "./panels.js";
import { savePicture, startFilm } from "./picture.js";
import { forServer, InPage, Live, Replay } from "./sources.js";
import { STORIES, STORY_NAMES } from "./stories.js";
import { short } from "./numbers.js";
import { Camera } from "./views/camera.js";
import { THEMES } from "./views/palette.js";
import { Plot } from "./views/plot.js";
import { Scene } from "./views/scene.js";

const PLOT_PERIOD = 60, PLOT_FRAMES = 4; // least milliseconds, and frames, between the drawings of two plots
const MARK_PERIOD = 800; // and between two changes of the labels of one plot
const CLOCK_PERIOD = 100;
const DRIFT = 0.08; // the sphere turns by itself until the reader turns it: radians a second
const SLOW_FRAME = 28, LEAST_QUALITY = 0.75;
const REPLACED = { sweep: ["attention"], influence: ["energy", "modes"], context: ["modes"] }; // plots that make room for those of stories
const STORY_PANELS = 5; // the plot of a story is as wide as two
const NO_TOKENS = { spec: { empty: "A Gaussian has no tokens to measure." }, marks: [], text: "A Gaussian has no tokens to measure." };
const KERNEL_NAMES = [["softmax", "Softmax"], ["unnormalized", "Unnormalized"], ["l2", "L2"], ["sigmoid", "Sigmoid"], ["hardmax", "Hardmax"]];
const NORM_NAMES = [["post", "Post-LN"], ["pre", "Pre-LN"], ["peri", "Peri-LN"], ["mix", "Mix-LN"], ["ngpt", "nGPT"], ["sqrt", "1/√(t+1) scaling"]];
const START_NAMES = [["sphere", "Uniform"], ["hemisphere", "Half"], ["clusters", "Groups"], ["hand", "By hand"]];
const TOOLS = [["turn", "Turn", "Drag to turn the sphere"], ["add", "Add", "Click to add a token"], ["move", "Move", "Drag a token"], ["paint", "Paint", "Drag to paint a cloud of tokens"], ["remove", "Remove", "Click a token to remove it"]];
const MATRICES = {
  2: { stretch: [[1, 0], [0, 0.4]], turn: [[0.6, -0.8], [0.8, 0.6]], saddle: [[1, 0], [0, -1]] },
  3: { stretch: [[1, 0, 0], [0, 0.6, 0], [0, 0, 0.2]], turn: [[0.6, -0.8, 0], [0.8, 0.6, 0], [0, 0, 1]], saddle: [[1, 0, 0], [0, 1, 0], [0, 0, -1]] },
};

/** Show the explorer in an element; return an object with close(). See README.md for the options. */
export function mount(root, options = {}) {
  const app = new App(root, options);
  app.begin();
  return app;
}

class App {
  constructor(root, options) {
    Object.assign(this, { root, options, runs: [], tool: "turn", playing: false, sweep: null, influence: null, gamma: null, wanted: null });
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
    const read = this.options.link ? readLink(location.hash, STORY_NAMES) : { given: false, problems: [] };
    if (read.given) Object.assign(this, { config: read.config, view: read.view });
    else if (this.options.config) {
      const given = readConfig(this.options.config);
      this.config = given.config;
      if (this.mode === "live" && given.problems.length) this.foreign = this.options.config; // the server may know more
      else given.problems.forEach((line) => this.say(line));
      if (this.foreign) this.config = { ...this.config, foreign: given.problems.some((line) => !line.startsWith("tokens")) };
    }
    if (read.problems.length) this.say(`The link was not understood in full, and defaults are used instead: ${read.problems.join("; ")}.`);
    if (this.still) {
      this.view.trails = read.given ? this.view.trails : false;
      this.say("Your system asks for less motion: press Play to start.");
    }
    this.camera.set(this.view.yaw, this.view.pitch);
    if (this.mode === "replay") this.beginReplay();
    else if (this.view.story) this.openStory(this.view.story, Math.floor(this.view.step), location.hash.includes("yaw="));
    else this.start();
    if (this.mode !== "replay" && !read.given && !this.foreign) this.introduce();
    if (this.options.link)
      addEventListener("hashchange", () => location.hash.slice(1) !== this.written && this.fromLink(), { signal: this.listeners.signal });
    addEventListener("keydown", (event) => this.key(event), { signal: this.listeners.signal });
    let before = 0;
    this.drifting = !this.still && !location.hash.includes("yaw=");
    const stay = () => (this.drifting = false);
    for (const name of ["pointerdown", "keydown"]) this.parts.canvas.addEventListener(name, stay, { signal: this.listeners.signal });
    const loop = (now) => {
      if (this.closed) return;
      if (this.drifting && this.playing && this.dirty) this.camera.turn((-DRIFT * Math.min(100, now - before)) / 1000, 0);
      this.adapt(now - before);
      before = now;
      this.draw();
      requestAnimationFrame(loop);
    };
    requestAnimationFrame(loop);
  }

  close() {
    this.closed = true;
    this.listeners.abort();
    this.runs.forEach((run) => run.source.close());
    this.root.replaceChildren();
  }

  fromLink() {
    const read = readLink(location.hash, STORY_NAMES);
    Object.assign(this, { config: read.config, view: read.view });
    if (read.problems.length) this.say(`The link was not understood in full, and defaults are used instead: ${read.problems.join("; ")}.`);
    this.camera.set(this.view.yaw, this.view.pitch);
    if (this.view.story) this.openStory(this.view.story, Math.floor(this.view.step), location.hash.includes("yaw="));
    else this.start();
  }

  // ---------------------------------------------------------------- runs

  makeSource() {
    if (this.mode === "live") {
      const address = this.options.socket ?? `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws${location.search}`;
      return new Live(address);
    }
    return new InPage(this.options.worker);
  }

  async beginReplay() {
    try {
      const data = this.options.replay ?? (await (await fetch(this.options.replayUrl)).json());
      const source = new Replay(data);
      const { config, exact } = source.readConfig();
      this.config = config;
      this.root.classList.toggle("inexact", !exact);
      this.runs = [this.makeRun(0, source, this.config)];
      Object.assign(this.view, source.usualPace());
      this.root.classList.add("replay");
      this.refresh();
      source.start();
      if (!this.still) this.play();
    } catch (error) {
      this.say(`The run cannot be replayed: ${error.message}`, true);
    }
  }

  makeRun(index, source, config) {
    const run = { index, source, config, frame: null, x: null, history: new History(), pending: false };
    source.onframe = (frame, { ended }) => this.take(run, frame, ended);
    source.onerror = (text) => this.say(text, true);
    source.oninfo = (info) => {
      if (info.ended) {
        this.say(`The run has ended: ${info.reason}.`);
        this.pause();
      }
    };
    return run;
  }

  /** Start from the beginning with the current config, beside another norm if that is wanted. */
  start(keepStory = false) {
    if (this.mode === "replay") {
      const [run] = this.runs;
      run.history = new History();
      this.scene.reset(0);
      run.source.start();
      return;
    }
    if (!keepStory) this.leaveStory();
    const wasPlaying = this.playing || !this.runs.length ? !this.still : this.playing;
    const configs = [this.config];
    if (this.view.compare && this.view.compare !== this.config.norm.kind) configs.push(this.beside());
    while (this.runs.length > configs.length) this.runs.pop().source.close();
    configs.forEach((config, index) => {
      this.runs[index] ??= this.makeRun(index, this.makeSource(), config);
      const run = this.runs[index];
      Object.assign(run, { config, history: new History(), fresh: true }); // the last frame stays until the first new one
      run.source.start(this.foreign && !index ? this.foreign : config);
    });
    this.influence = null;
    if (wasPlaying) this.play();
    else this.pause();
    this.refresh();
    this.remember();
  }

  beside() {
    const { config } = readConfig({ ...this.config, noise: null, norm: { kind: this.view.compare } });
    return config;
  }

  take(run, frame, ended) {
    const wasFresh = run.fresh;
    run.fresh = false;
    if (wasFresh) this.scene.reset(run.index);
    if (!wasFresh && run.history.last && isLater(run.history.last, frame) && !ended) run.history = new History();
    run.frame = frame;
    this.root.classList.toggle("measure", frame.kind !== 0); // a density or a Gaussian has no tokens to edit
    if (frame.kind === GAUSSIAN && this.parts.canvas.dataset.gaussian !== "") this.nameGaussian(frame.d);
    this.scene.note(run.index, frame);
    run.x = frame.kind === 0 ? this.scene.view(run.index).x : null;
    run.groups = this.scene.view(run.index).groups?.count ?? NaN;
    run.history.add(frame, run.x, run.groups, performance.now(), ended || !this.playing || this.mode === "replay");
    if (this.turnToTokens && run.x && frame.d === 3) this.faceTokens(run);
    run.pending = this.dirty = true;
    if (frame.time > 0 && this.stats.firstMotion === null) this.stats.firstMotion = performance.now();
    if (ended && this.playing && run.index === 0) this.pause();
    if (this.sweep && run.index === 0) this.followSweep(frame);
  }

  /** Say what the two pictures of a Gaussian are. */
  nameGaussian(d) {
    this.parts.canvas.dataset.gaussian = "";
    const which = d > 2 ? " of two coordinates" : "", names = [`mean, 1 and 2 standard deviations${which}`, `cone of covariances${which}`];
    this.parts.names.replaceChildren(...names.map((text) => make("span", { text })));
    this.root.classList.add("gaussian");
  }

  /** Turn the sphere so that the side to which tokens will gather is in view. */
  faceTokens({ x }) {
    const mean = [0, 0, 0];
    const seen = this.config.attention.causal ? 3 : x.length; // causal tokens gather at the first one
    for (let k = 0; k < seen; k++) mean[k % 3] += x[k];
    this.turnToTokens = false;
    this.camera.set(Math.atan2(mean[1], mean[0]) + 0.4, 0.7 * Math.asin(mean[2] / (Math.hypot(...mean) || 1)));
  }

  /** Change the model and go on from the current tokens. */
  setModel(patch) {
    const { config, problems } = readConfig({ ...this.config, ...patch });
    problems.forEach((line) => this.say(line));
    this.config = config;
    const changed = Object.keys(patch); // what the page does not know of a run stays as it is
    for (const name of this.foreign ? changed : []) this.foreign = { ...this.foreign, [name]: forServer(config)[name] ?? null };
    this.runs.forEach((run, index) => {
      run.config = index ? this.beside() : config;
      run.history.changes.push(run.history.last?.t ?? 0);
      run.source.set(run.config, changed);
    });
    this.dirty = true;
    this.refresh();
    this.remember();
  }

  setTokens(tokens) {
    const { config, problems } = readConfig({ ...this.config, tokens });
    problems.forEach((line) => this.say(line));
    this.config = config;
    this.foreign = null;
    this.start();
  }

  play() {
    this.playing = true;
    this.runs.forEach((run) => run.source.play({ speed: this.view.speed, log: this.view.log }));
    this.showPlaying();
  }

  pause() {
    this.playing = false;
    this.runs.forEach((run) => run.source.pause());
    this.showPlaying();
  }

  step() {
    this.playing = false;
    this.runs.forEach((run) => run.source.step());
    this.showPlaying();
  }

  setPace(patch) {
    Object.assign(this.view, patch);
    if (this.playing) this.play();
    this.refresh();
    this.remember();
  }

  // ---------------------------------------------------------------- sweep over kappa

  startSweep({ from, to, steps, settle, average }) {
    const kappas = Array.from({ length: steps }, (_, k) => Number((from + ((to - from) * k) / (steps - 1)).toPrecision(4)));
    this.sweep = { kappas, range: [Math.min(from, to), Math.max(from, to)], dots: [], at: -1, settle, average, sum: 0, count: 0, since: 0 };
    this.nextKappa(0);
  }

  nextKappa(time) {
    const { sweep } = this;
    sweep.at++;
    Object.assign(sweep, { sum: 0, count: 0, since: time });
    if (sweep.at >= sweep.kappas.length) {
      this.say("The sweep is done.");
      this.pause();
      return;
    }
    this.setModel({ noise: { kappa: sweep.kappas[sweep.at] } });
  }

  followSweep(frame) {
    const { sweep } = this;
    if (sweep.at >= sweep.kappas.length) return;
    const waited = frame.time - sweep.since;
    if (waited < 0) sweep.since = frame.time;
    if (waited > sweep.settle) {
      sweep.sum += frame.order;
      sweep.count++;
    }
    if (waited > sweep.settle + sweep.average && sweep.count) {
      sweep.dots.push({ kappa: sweep.kappas[sweep.at], order: sweep.sum / sweep.count });
      this.nextKappa(frame.time);
    }
  }

  // ---------------------------------------------------------------- stories

  openStory(name, step = 0, keepView = false) {
    const story = STORIES.find((each) => each.name === name);
    if (!story) return;
    const at = Math.max(0, Math.min(story.steps.length - 1, step)), scene = story.steps[at];
    Object.assign(this.view, { story: name, step: at, log: false, speed: 1, field: false, ...scene.pace, compare: scene.compare ?? null });
    this.config = readConfig(scene.config).config;
    this.sweep = null;
    this.influence = null;
    this.gamma = scene.context ?? null;
    this.foreign = null;
    this.wanted = scene;
    this.turnToTokens = !keepView;
    this.playing = !this.still;
    this.start(true);
    if (scene.sweep) this.startSweep(scene.sweep);
    this.showStory(story, at, scene);
    this.arrangePanels();
  }

  leaveStory() {
    if (!this.view.story) return;
    Object.assign(this.view, { story: null, step: 0 });
    this.sweep = this.influence = this.gamma = this.wanted = null;
    this.parts.story.hidden = true;
    this.parts.stories.value = "";
    this.arrangePanels();
  }

  showStory(story, at, scene) {
    const { story: card } = this.parts, last = at === story.steps.length - 1;
    const next = STORIES[(STORIES.indexOf(story) + 1) % STORIES.length];
    card.hidden = false;
    this.parts.stories.value = story.name;
    const dots = story.steps.map((_, k) => make("button", { class: k === at ? "dot on" : "dot", "aria-label": `Step ${k + 1}`, "aria-current": k === at ? "step" : null, onclick: () => this.openStory(story.name, k) }));
    card.replaceChildren(
      make("h2", { text: story.title }),
      make("p", { text: scene.text }),
      make("div", { class: "steps" },
        make("button", { text: "Back", disabled: at === 0, onclick: () => this.openStory(story.name, at - 1) }),
        make("span", { class: "dots" }, ...dots),
        last
          ? make("button", { class: "primary", text: `Next story: ${next.title}`, onclick: () => this.openStory(next.name) })
          : make("button", { class: "primary", text: "Next", "data-next": "", onclick: () => this.openStory(story.name, at + 1) }),
        make("button", { class: "quiet", text: "Leave the story", onclick: () => (this.leaveStory(), this.remember()) }),
      ),
    );
  }

  // ---------------------------------------------------------------- links, copies, pictures

  remember() {
    if (!this.options.link || this.mode === "replay") return;
    clearTimeout(this.linkTimer);
    this.linkTimer = setTimeout(() => {
      this.written = this.link();
      history.replaceState(null, "", `${location.pathname}${location.search}#${this.written}`);
    }, 250);
  }

  link() {
    return writeLink(this.config, { ...this.view, yaw: this.camera.yaw, pitch: this.camera.pitch });
  }

  async copy(what) {
    const t1 = Math.max(this.runs[0]?.frame?.time ?? 0, 1) > 1 ? this.runs[0].frame.time : 10;
    const text = {
      link: () => `${location.href.split("#")[0]}#${this.link()}`,
      Python: () => toPython(this.config, t1),
      TOML: () => toToml(this.config, t1),
    }[what]();
    this.lastCopy = text;
    try {
      await navigator.clipboard.writeText(text);
      this.say(what === "link" ? "The link is on the clipboard." : `The ${what} is on the clipboard.`);
    } catch {
      this.showText(what, text);
    }
  }

  showText(what, text) {
    const area = make("textarea", { readonly: true, rows: "14", "aria-label": what });
    area.value = text;
    const dialog = make("dialog", {}, make("h2", { text: what === "link" ? "Link" : what }), make("p", { text: "This browser does not let the page use the clipboard. Copy the text from here." }), area, make("form", { method: "dialog" }, make("button", { text: "Close" })));
    this.root.append(dialog);
    dialog.addEventListener("close", () => dialog.remove());
    dialog.showModal();
    area.select();
  }

  /** Say what there is to see, and offer the first story. */
  introduce() {
    const [first] = STORIES;
    const begin = make("button", { class: "primary", text: "Show me", onclick: () => (line.remove(), this.openStory(first.name)) });
    const line = this.say("Every dot is a token, and attention pulls them together. Drag β while they move.", false, begin);
  }

  /** Show a line to the reader, as text, with a button if there is one. */
  say(text, bad = false, button = null) {
    const { notices } = this.parts;
    if ([...notices.children].some((each) => each.firstChild.textContent === text)) return;
    const line = make("div", { class: bad ? "notice bad" : "notice" }, make("span", { text }), button, make("button", { class: "quiet", text: "×", "aria-label": "Dismiss", onclick: () => line.remove() }));
    notices.append(line);
    while (notices.children.length > 3) notices.firstChild.remove();
    if (!bad) setTimeout(() => line.remove(), button ? 20000 : 9000);
    return line;
  }

  // ---------------------------------------------------------------- building the page

  build() {
    const parts = (this.parts = {});
    const button = (text, label, onclick, more = {}) => make("button", { text, "aria-label": label, title: label, onclick, ...more });
    parts.stories = make("select", { "aria-label": "Stories", onchange: () => parts.stories.value ? this.openStory(parts.stories.value) : this.leaveStory() },
      make("option", { value: "", text: "Guided stories…" }), ...STORIES.map(({ name, title }, k) => make("option", { value: name, text: `${k + 1}. ${title}` })));
    parts.films = ["WebM", "GIF"].map((format) => button(format, `Record a film (${format}); press again to stop`, () => this.film(format), { "data-format": format }));
    const header = make("header", {},
      make("h1", {}, make("span", { class: "mark", "aria-hidden": "true" }), make("span", { text: "tokenfield" })),
      parts.stories,
      make("div", { class: "group copies", role: "group", "aria-label": "Share" },
        button("Link", "Copy link", () => this.copy("link"), { class: "link" }),
        button("Python", "Copy as Python", () => this.copy("Python"), { class: "code" }),
        button("TOML", "Copy as TOML", () => this.copy("TOML"), { class: "code" }),
        button("PNG", "Save a picture (PNG)", () => savePicture(this)),
        ...parts.films),
      make("div", { class: "group" },
        (parts.theme = button("◐", "Light or dark", () => this.nextTheme())),
        button("?", "Help", () => this.help())));
    parts.canvas = make("canvas", { class: "scene", tabindex: "0", role: "img", "aria-label": "Tokens" });
    parts.clock = make("div", { class: "clock", "aria-live": "off" });
    parts.tools = make("div", { class: "tools", role: "radiogroup", "aria-label": "Mouse tool" },
      ...TOOLS.map(([name, text, title]) => make("button", { text, title, role: "radio", "data-tool": name, "aria-checked": "false", onclick: () => this.setTool(name) })));
    parts.story = make("section", { class: "story", "aria-label": "Story", "aria-live": "polite", hidden: true });
    parts.notices = make("div", { class: "notices", role: "status" });
    parts.names = make("div", { class: "names", "aria-hidden": "true" });
    const stage = make("section", { class: "stage", "aria-label": "Scene" }, parts.canvas, parts.clock, parts.tools, parts.names, parts.notices);
    parts.play = button("Play", "Play (space)", () => (this.playing ? this.pause() : this.play()), { class: "primary play" });
    parts.speed = slider("Speed", { min: -2, max: 2, step: 0.05, value: 0, shown: (v) => `${short(10 ** v)}${this.view.log ? " dec/s" : " /s"}`, title: "Units of time (or decades) a second", onchange: (v) => this.setPace({ speed: Number((10 ** v).toPrecision(3)) }) });
    parts.log = check("log time", false, (on) => this.setPace({ log: on, speed: on ? 0.3 : 1 }), "Time on a logarithmic scale, for long waits");
    const transport = make("div", { class: "transport", role: "group", "aria-label": "Time" },
      button("Rewind", "Rewind to the start (R)", () => this.start(true)), parts.play, button("Step", "One step (.)", () => this.step()), parts.speed.element, parts.log.element);
    parts.panels = make("section", { class: "panels", "aria-label": "Plots" });
    parts.tip = make("div", { class: "tip", role: "tooltip", id: `tip-${Math.random().toString(36).slice(2, 8)}`, hidden: true });
    this.root.replaceChildren(header, make("main", {}, this.buildControls(), make("div", { class: "middle" }, parts.story, stage, transport), parts.panels), parts.tip);
    this.scene = new Scene(parts.canvas, this.camera, this.options.canvas2d === true);
    this.root.dataset.renderer = this.scene.renderer.name;
    if (this.scene.renderer.name !== "WebGL2") this.say("This browser has no WebGL2: the scene is drawn with Canvas2D, which is slower.");
    this.panels = {};
    this.arrangePanels();
    this.listenToPointer(parts.canvas);
    this.setTool("turn");
    this.applyTheme();
    globalThis.matchMedia?.("(prefers-color-scheme: dark)").addEventListener("change", () => this.applyTheme(), { signal: this.listeners.signal });
    addEventListener("resize", () => (this.dirty = true), { signal: this.listeners.signal });
    addEventListener("scroll", () => this.playing || this.later("plots", () => this.drawPlots(true)), { signal: this.listeners.signal, capture: true, passive: true });
  }

  buildControls() {
    const parts = this.parts, a = () => this.config.attention;
    const attention = (patch) => this.setModel({ attention: { ...a(), ...patch } });
    const toBeta = (s) => nice(200 * s ** 3), fromBeta = (beta) => Math.cbrt(Math.max(0, beta) / 200);
    parts.kernel = choice("Kernel", KERNEL_NAMES, "softmax", (kind) => attention({ kind, A: kind === "l2" ? null : a().A }), "How scores become attention: softmax is the SA flow, unnormalized the USA flow");
    parts.beta = slider("β", { min: 0, max: 1, step: 0.002, value: fromBeta(9), shown: (s) => short(toBeta(s)), title: "Inverse temperature: larger is sharper", onchange: (s) => attention({ beta: toBeta(s) }) });
    parts.A = this.matrixControl("A", "Score matrix: s(x, y) = ⟨Ax, y⟩", (A) => attention({ A }));
    parts.V = this.matrixControl("V", "Value matrix", (V) => attention({ V }));
    parts.causal = check("causal", false, (causal) => attention({ causal }), "Token i sees tokens 1 to i only");
    parts.rule = check("attend to others", false, (on) => attention({ rule: on ? "others" : "self" }), "Hardmax: a token does not attend to its own place");
    parts.norm = choice("Norm", NORM_NAMES, "post", (kind) => this.setModel({ norm: { kind }, noise: kind === "post" ? this.config.noise : null }), "Where layer normalization is");
    parts.tau = slider("τ", { min: 0.1, max: 10, step: 0.1, value: 2, shown: short, title: "Mix-LN: time at which Post-LN ends", onchange: (tau) => this.setModel({ norm: { kind: "mix", tau } }) });
    parts.alpha = slider("α", { min: 0.1, max: 4, step: 0.1, value: 1, shown: short, title: "nGPT: rate", onchange: (alpha) => this.setModel({ norm: { kind: "ngpt", alpha } }) });
    parts.noisy = check("noise", false, (on) => this.setModel({ noise: on ? { kappa: 4 } : null, norm: on ? { kind: "post" } : this.config.norm }), "Brownian motion of strength √(2/κ); needs Post-LN");
    parts.kappa = slider("κ", { min: -1, max: 3, step: 0.01, value: 0.6, shown: (v) => short(10 ** v), title: "Inverse noise: smaller is noisier", onchange: (v) => this.setModel({ noise: { kappa: Number((10 ** v).toPrecision(3)) } }) });
    parts.compare = choice("Compare with", [["", "Nothing"], ...NORM_NAMES], "", (kind) => {
      this.view.compare = kind || null;
      this.start();
    }, "Run a second norm beside this one");
    const tokens = (patch) => {
      const t = this.config.tokens, now = { kind: t.x || t.kind === "circle" ? "sphere" : t.kind, n: tokenCount(t), d: dimension(t), seed: t.seed ?? 0, k: t.k, spread: t.spread };
      const next = { ...now, ...patch };
      this.setTokens(next.kind === "clusters" ? { ...next, k: Math.min(next.k ?? 4, next.n) } : { kind: next.kind, n: next.n, d: next.d, seed: next.seed });
    };
    parts.space = choice("Space", [["3", "Sphere"], ["2", "Circle"]], "3", (d) => {
      if (this.config.attention.A || Array.isArray(this.config.attention.V)) this.config = { ...this.config, attention: { ...a(), A: null, V: null } };
      tokens({ d: Number(d) });
    });
    parts.startKind = choice("Start", START_NAMES, "sphere", (kind) => (kind === "hand" ? this.refresh() : tokens({ kind })));
    parts.n = slider("n", { min: 0, max: 1, step: 0.005, value: 0.5, shown: (s) => String(toN(s)), title: "Number of tokens", onchange: (s) => this.later("n", () => tokens({ n: toN(s) })) });
    parts.k = slider("groups", { min: 1, max: 12, step: 1, value: 4, shown: String, onchange: (k) => this.later("k", () => tokens({ k })) });
    parts.spread = slider("spread", { min: 0, max: 1, step: 0.01, value: 0.1, shown: short, onchange: (spread) => this.later("s", () => tokens({ spread })) });
    parts.seed = make("input", { type: "number", min: "0", max: "4294967295", step: "1", "aria-label": "Seed", onchange: () => tokens({ seed: Math.floor(Number(parts.seed.value)) }) });
    parts.trails = check("trails", true, (on) => this.setView({ trails: on }));
    parts.field = check("vector field", false, (on) => this.setView({ field: on }), "Arrows show where a token at that place would move");
    const section = (title, ...rows) => make("fieldset", { "data-section": title }, make("legend", { text: title }), ...rows);
    return make("aside", { class: "controls", "aria-label": "Controls" },
      section("Attention", parts.kernel.element, parts.beta.element, parts.A.element, parts.V.element, make("div", { class: "checks" }, parts.causal.element, parts.rule.element)),
      section("Norm and noise", parts.norm.element, parts.tau.element, parts.alpha.element, make("div", { class: "checks" }, parts.noisy.element), parts.kappa.element, parts.compare.element),
      section("Tokens", parts.space.element, parts.startKind.element, parts.n.element, parts.k.element, parts.spread.element,
        make("label", { class: "row" }, make("span", { text: "Seed" }), parts.seed, make("button", { text: "New", "aria-label": "New seed", onclick: () => tokens({ seed: Math.floor(Math.random() * 1e6) }) }))),
      section("View", make("div", { class: "checks" }, parts.trails.element, parts.field.element)));
  }

  /** A matrix: a preset, or numbers typed in. `change` gets rows, a number (V) or null for the default. */
  matrixControl(name, title, change) {
    const presets = name === "A"
      ? [["", "β I"], ["stretch", "stretched"], ["turn", "turned"], ["saddle", "saddle"], ["custom", "custom"]]
      : [["", "I"], ["minus", "−I"], ["stretch", "stretched"], ["turn", "turned"], ["saddle", "saddle"], ["custom", "custom"]];
    const grid = make("div", { class: "matrix", role: "group", "aria-label": `Entries of ${name}`, hidden: true });
    const scale = () => (name === "A" ? this.config.attention.beta || 1 : 1);
    const picker = choice(name, presets, "", (key) => {
      const d = dimension(this.config.tokens);
      if (key === "") change(null);
      else if (key === "minus") change(-1);
      else if (key === "custom") change(this.config.attention[name] && Array.isArray(this.config.attention[name]) ? this.config.attention[name] : identity(d, scale()));
      else change(MATRICES[d][key].map((row) => row.map((value) => Number((value * scale()).toPrecision(4)))));
    }, title);
    const set = (value, d) => {
      grid.hidden = !Array.isArray(value);
      if (!Array.isArray(value)) {
        picker.set(value === -1 ? "minus" : "");
        return;
      }
      if (!Object.keys(MATRICES[d]).includes(picker.select.value)) picker.set("custom");
      if (grid.contains(document.activeElement)) return;
      grid.style.gridTemplateColumns = `repeat(${d}, 1fr)`;
      grid.replaceChildren(...value.flatMap((row, i) => row.map((entry, j) => {
        const input = make("input", { type: "number", step: "0.1", "aria-label": `${name} row ${i + 1} column ${j + 1}`, onchange: () => {
          const rows = this.config.attention[name].map((each) => [...each]);
          rows[i][j] = Number(input.value);
          picker.set("custom");
          change(rows);
        } });
        input.value = String(entry);
        return input;
      })));
    };
    return { element: make("div", { class: "matrixrow" }, picker.element, grid), set };
  }

  /** Do something once the reader has stopped moving a slider. */
  later(key, action) {
    this.waiting ??= {};
    clearTimeout(this.waiting[key]);
    this.waiting[key] = setTimeout(action, 120);
  }

  setView(patch) {
    Object.assign(this.view, patch);
    this.dirty = true;
    this.refresh();
    this.remember();
  }

  /** Make the controls say what the state is. */
  refresh() {
    const { parts, config, view } = this, { attention, norm, noise, tokens } = config, d = dimension(tokens);
    parts.kernel.set(this.foreign?.attention?.kind ?? attention.kind); // blank for one that the page does not know
    parts.beta.set(Math.cbrt(Math.max(0, attention.beta) / 200));
    parts.beta.element.querySelector("output").textContent = short(attention.beta);
    parts.beta.element.hidden = attention.kind === "hardmax" || (attention.A !== null && attention.kind !== "l2");
    parts.A.set(attention.A, d);
    parts.A.element.hidden = attention.kind === "l2";
    parts.V.set(attention.V, d);
    parts.causal.set(attention.causal);
    parts.rule.set(attention.rule === "others");
    parts.rule.element.hidden = attention.kind !== "hardmax";
    parts.norm.set(this.foreign?.norm?.kind ?? norm.kind);
    parts.tau.element.hidden = norm.kind !== "mix";
    parts.tau.set(norm.tau ?? 2);
    parts.alpha.element.hidden = norm.kind !== "ngpt";
    parts.alpha.set(norm.alpha ?? 1);
    parts.noisy.set(noise !== null);
    parts.kappa.element.hidden = noise === null;
    if (noise) parts.kappa.set(Math.log10(noise.kappa));
    parts.compare.set(view.compare ?? "");
    parts.space.set(String(d));
    parts.startKind.set(tokens.x || tokens.kind === "circle" ? "hand" : tokens.kind);
    parts.n.set(fromN(tokenCount(tokens)));
    parts.n.element.querySelector("output").textContent = String(tokenCount(tokens));
    parts.k.element.hidden = parts.spread.element.hidden = tokens.kind !== "clusters";
    parts.k.set(tokens.k ?? 4);
    parts.spread.set(tokens.spread ?? 0.1);
    if (document.activeElement !== parts.seed) parts.seed.value = String(tokens.seed ?? 0);
    parts.trails.set(view.trails);
    parts.field.set(view.field);
    parts.speed.set(Math.log10(view.speed));
    parts.log.set(view.log);
    const names = Object.fromEntries(NORM_NAMES);
    if (!this.root.classList.contains("gaussian")) parts.names.replaceChildren(...(this.runs.length > 1 ? [make("span", { text: names[norm.kind] }), make("span", { text: names[view.compare] })] : []));
    this.showPlaying();
  }

  showPlaying() {
    const { play } = this.parts;
    play.textContent = this.playing ? "Pause" : "Play";
    play.setAttribute("aria-label", this.playing ? "Pause (space)" : "Play (space)");
    this.root.dataset.playing = String(this.playing);
  }

  setTool(name) {
    this.tool = name;
    for (const each of this.parts.tools.children) each.setAttribute("aria-checked", String(each.dataset.tool === name));
    this.parts.canvas.dataset.tool = name;
  }

  nextTheme() {
    const dark = this.theme.dark;
    this.themeChoice = this.themeChoice === "auto" ? (dark ? "light" : "dark") : this.themeChoice === "dark" ? "light" : "dark";
    this.applyTheme();
  }

  applyTheme() {
    const system = globalThis.matchMedia?.("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    const name = this.themeChoice === "auto" ? system : this.themeChoice;
    this.theme = THEMES[name];
    this.root.dataset.theme = name;
    document.documentElement.dataset.theme = name;
    this.dirty = true;
    this.plotted = 0;
  }

  help() {
    const keys = [["space", "play or pause"], [".", "one step"], ["R", "rewind"], ["+ and −", "more or less β"], ["arrows", "turn the sphere (scene in focus)"], ["T, F", "trails, vector field"], ["N", "next step of a story"], ["Esc", "leave a story"]];
    const dialog = make("dialog", {}, make("h2", { text: "Help" }),
      make("p", { text: "Tokens move on a sphere under self-attention. Change the model on the left while they move. Dashed violet lines in the plots are predictions of theory, without a simulation; the labels under a plot show the formula." }),
      make("p", { text: "Editing tokens starts a new run from what you see. The address of the page holds everything: copy it to show the same run to others." }),
      make("dl", {}, ...keys.flatMap(([key, text]) => [make("dt", { text: key }), make("dd", { text })])),
      make("p", { class: "fine", text: `Scene: ${this.scene.renderer.name}. Engine: ${this.mode === "live" ? "tokenfield on this machine" : this.mode === "replay" ? "a saved run" : "in this page, checked against tokenfield"}.` }),
      make("form", { method: "dialog" }, make("button", { class: "primary", text: "Close" })));
    this.root.append(dialog);
    dialog.addEventListener("close", () => dialog.remove());
    dialog.showModal();
  }

  film(format) {
    if (this.filming) {
      this.filming();
      return;
    }
    const button = this.parts.films.find((each) => each.dataset.format === format);
    const show = (on) => {
      button.classList.toggle("on", on);
      button.textContent = on ? "Stop" : format;
    };
    try {
      show(true);
      this.filming = startFilm(this, format, () => {
        this.filming = null;
        show(false);
      });
    } catch (error) {
      show(false);
      this.say(`This browser cannot record films: ${error.message}`);
    }
  }

  // ---------------------------------------------------------------- plots

  arrangePanels() {
    const shown = this.wanted?.show, less = REPLACED[shown];
    const names = shown ? [shown, ...ALWAYS.filter((name) => name !== shown && !less?.includes(name))].slice(0, STORY_PANELS) : ALWAYS;
    for (const name of Object.keys(this.panels)) if (!names.includes(name)) delete this.panels[name];
    for (const name of names) this.panels[name] ??= this.makePanel(name);
    for (const name of names) this.panels[name].figure.classList.toggle("wanted", name === shown);
    this.parts.panels.replaceChildren(...names.map((name) => this.panels[name].figure));
    this.plotted = 0;
  }

  makePanel(name) {
    const { title, about } = PANELS[name], canvas = make("canvas", { role: "img", "aria-label": title });
    const marks = make("div", { class: "marks" });
    const head = make("button", { class: "about", text: title, onfocus: () => this.showTip(head, { formula: about }), onblur: () => this.hideTip(), onmouseenter: () => this.showTip(head, { formula: about }), onmouseleave: () => this.hideTip() });
    const figure = make("figure", { class: "panel", "data-panel": name }, make("figcaption", {}, head), canvas, marks);
    return { figure, canvas, marks, plot: new Plot(canvas), known: "", chips: [], marked: 0 };
  }

  /** Draw the next plot in turn, or all of them. One at a time keeps the scene smooth where there is no GPU. */
  drawPlots(all = false) {
    if (!this.runs.length || !this.runs[0].frame) return;
    const names = Object.keys(this.panels).filter((name) => {
      const box = this.panels[name].canvas.getBoundingClientRect();
      return box.bottom > 0 && box.top < innerHeight;
    });
    if (!names.length) return;
    this.turn = ((this.turn ?? -1) + 1) % names.length;
    for (const name of all ? names : [names[this.turn]]) this.drawPlot(name, this.panels[name]);
  }

  drawPlot(name, panel) {
    const { runs, theme, view, sweep, influence, gamma } = this;
    if (name === "influence") this.measure();
    const { spec, marks, text } = runs[0].frame.kind === GAUSSIAN ? NO_TOKENS : PANELS[name].make({ runs, theme, log: view.log, sweep, influence, gamma: gamma ?? undefined });
    panel.plot.draw(spec, theme);
    const now = performance.now(), known = JSON.stringify(marks);
    if (known === panel.known || (panel.marked && now - panel.marked < MARK_PERIOD && this.playing)) return;
    Object.assign(panel, { known, marked: now });
    panel.canvas.setAttribute("aria-label", `${PANELS[name].title}. ${text}`);
    marks.forEach((mark, k) => {
      panel.chips[k] ??= this.makeMark();
      panel.chips[k].mark = mark;
      if (panel.chips[k].element.textContent !== mark.label) panel.chips[k].element.textContent = mark.label;
    });
    panel.chips.length = marks.length;
    if (panel.marks.children.length !== marks.length) panel.marks.replaceChildren(...panel.chips.map(({ element }) => element));
  }

  makeMark() {
    const chip = { mark: null, element: null }, show = () => this.showTip(chip.element, chip.mark), hide = () => this.hideTip();
    chip.element = make("button", { class: "markchip", onfocus: show, onmouseenter: show, onclick: show, onblur: hide, onmouseleave: hide });
    return chip;
  }

  showTip(element, { formula, when, page }) {
    const { tip } = this.parts, { docs } = this.options;
    clearTimeout(this.tipTimer);
    const source = !page ? "" : docs ? make("a", { href: `${docs}${page}.html`, target: "_blank", rel: "noopener", text: "Where it comes from" }) : make("div", { class: "fine", text: `More in docs/theory/${page}.md of tokenfield.` });
    tip.replaceChildren(make("div", { class: page ? "formula" : "", text: formula }), when ? make("div", { class: "fine", text: `Holds for: ${when}.` }) : "", source);
    tip.hidden = false;
    tip.onmouseenter = () => clearTimeout(this.tipTimer);
    tip.onmouseleave = () => this.hideTip();
    element.setAttribute("aria-describedby", tip.id);
    const box = element.getBoundingClientRect(), own = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(innerWidth - own.width - 8, box.left))}px`;
    tip.style.top = `${box.bottom + own.height + 8 > innerHeight ? Math.max(4, box.top - own.height - 6) : box.bottom + 6}px`;
  }

  hideTip() {
    clearTimeout(this.tipTimer);
    this.tipTimer = setTimeout(() => (this.parts.tip.hidden = true), 200);
  }

  measure() {
    const [run] = this.runs, t = Math.min(run.frame.time, 40);
    if (t < 0.05 || (this.influence && Math.abs(t - this.influence.t) < 0.08)) return;
    this.influence = { t, values: measureInfluence(run.config, t) };
  }

  // ---------------------------------------------------------------- drawing

  /** Draw fewer pixels, shorter trails and fewer plots where the browser cannot keep up, as without a GPU. */
  adapt(interval) {
    if (!this.playing || document.hidden || interval > 1000) return;
    this.pacing = { sum: (this.pacing?.sum ?? 0) + interval, count: (this.pacing?.count ?? 0) + 1 };
    if (this.pacing.sum < 1000) return;
    if (this.pacing.sum / this.pacing.count > SLOW_FRAME) {
      Object.assign(this.scene, { quality: LEAST_QUALITY, trailPart: 0.5 });
      this.plotFrames = 2 * PLOT_FRAMES;
    }
    this.pacing = null;
  }

  drawScene() {
    const { scene, runs, theme, view } = this;
    const items = runs.map((run) => ({ frame: run.frame, attention: view.field && run.frame?.d <= 3 && run.frame.kind === 0 ? makeAttention(run.config.attention, run.frame.d) : null }));
    scene.draw(items, theme, { trails: view.trails, field: view.field, chosen: this.chosen, first: this.config.attention.causal });
  }

  draw() {
    if (!this.dirty) return;
    this.dirty = false;
    this.drawScene();
    const { runs } = this, [run] = runs, frame = run?.frame;
    const now = performance.now();
    if (frame && (now - (this.clocked ?? 0) > CLOCK_PERIOD || !this.playing)) this.showClock(frame, now);
    for (const each of runs)
      if (each.pending) {
        each.pending = false;
        each.source.drawn();
      }
    this.root.dataset.frames = String(++this.stats.frames);
    const since = now - (this.plotted ?? 0);
    if (since > 6 * PLOT_PERIOD || (since > PLOT_PERIOD && this.stats.frames >= (this.plotAt ?? 0))) {
      this.plotted = now;
      this.plotAt = this.stats.frames + (this.plotFrames ?? PLOT_FRAMES);
      this.drawPlots();
    }
    clearTimeout(this.lastPlot); // once no more frames come, all plots show the last one
    this.lastPlot = setTimeout(() => this.drawPlots(true), this.playing ? 8 * PLOT_PERIOD : PLOT_PERIOD);
    this.onpicture?.();
  }

  showClock(frame, now) {
    const { clock, canvas } = this.parts, unit = frame.logTimeUnit ? ` · e^${short(frame.logTimeUnit)}` : "", time = shownTime(frame);
    const count = clusterText(frame, this.runs[0].groups);
    this.clocked = now;
    clock.textContent = `t = ${time}${unit}\n${frame.kind === 0 ? count : ""}${frame.d > 3 ? ` (d = ${frame.d}: plots only)` : ""}`;
    canvas.setAttribute("aria-label", frame.kind === 0 ? `Tokens on the ${frame.d === 2 ? "circle" : "sphere"}: ${count}, time ${time}` : frame.kind === GAUSSIAN ? `A Gaussian in the plane and its covariance in the cone, time ${time}` : `Time ${time}`);
    Object.assign(this.root.dataset, { time: String(frame.time), clusters: String(frame.clusters) });
    if (this.stats.firstMotion !== null) this.root.dataset.firstMotion = this.stats.firstMotion.toFixed(0);
  }

  // ---------------------------------------------------------------- pointer and keys

  listenToPointer(canvas) {
    let drag = null;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (!this.runs[0]?.frame || event.button > 0) return;
      const [x, y] = at(event), index = this.scene.viewAt(x), { d, kind } = this.runs[index].frame;
      const tool = this.runs[index].source.editable && kind === 0 && d <= 3 && this.tool !== "turn" ? this.tool : "turn";
      canvas.setPointerCapture(event.pointerId);
      drag = { tool, x, y, index, d, kind, moved: 0, rows: null, resume: this.playing };
      if (tool === "turn") return;
      const near = this.scene.tokenAt(x, y, index, d);
      if (tool === "move" && near < 0) drag.tool = "turn";
      else if (tool === "remove" && near < 0) drag = null;
      else if ((tool === "add" || tool === "paint") && !this.scene.inside(x, y, index, d)) drag.tool = "turn";
      else {
        this.pause();
        drag.rows = this.currentRows(index);
        drag.token = near;
        if (tool === "add") drag.rows.push(quantized(this.scene.directionAt(x, y, index, d)));
        if (tool === "remove" && drag.rows.length > 1) drag.rows.splice(near, 1);
        if (tool === "paint") this.sprinkle(drag, x, y);
      }
    }, { signal: this.listeners.signal });
    canvas.addEventListener("pointermove", (event) => {
      if (!drag) return;
      const [x, y] = at(event), { radius } = this.scene.place(drag.index);
      const [dx, dy] = [x - drag.x, y - drag.y];
      drag.moved += Math.abs(dx) + Math.abs(dy);
      [drag.x, drag.y] = [x, y];
      if (drag.tool === "turn") {
        if (drag.d === 3 || drag.kind === GAUSSIAN) this.camera.turn(dx / radius, dy / radius);
        this.dirty = true;
      } else if (drag.tool === "move") {
        drag.rows[drag.token] = quantized(this.scene.directionAt(x, y, drag.index, drag.d));
        this.preview(drag);
      } else if (drag.tool === "paint" && this.scene.inside(x, y, drag.index, drag.d)) this.sprinkle(drag, x, y);
    }, { signal: this.listeners.signal });
    const end = () => {
      if (!drag) return;
      const { rows, resume, tool } = drag;
      drag = null;
      this.chosen = null;
      if (tool === "turn") return this.remember();
      if (!rows) return;
      this.playing = resume;
      this.setTokens({ x: rows });
    };
    canvas.addEventListener("pointerup", end, { signal: this.listeners.signal });
    canvas.addEventListener("pointercancel", end, { signal: this.listeners.signal });
    canvas.addEventListener("keydown", (event) => {
      const turns = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] };
      if (!turns[event.key]) return;
      event.preventDefault();
      this.camera.turn(...turns[event.key]);
      this.dirty = true;
      this.remember();
    });
  }

  /** Return the tokens as rows of whole numbers, as links hold them. */
  currentRows(index) {
    const { x } = this.runs[index], { n, d } = this.runs[index].frame;
    return Array.from({ length: n }, (_, i) => quantized(Array.from(x.subarray(i * d, i * d + d))));
  }

  sprinkle(drag, x, y) {
    const now = performance.now();
    if (now - (drag.last ?? 0) < 30) return;
    drag.last = now;
    for (let k = 0; k < 3 && drag.rows.length < MOST_TOKENS; k++) {
      const [jx, jy] = [x + 36 * (Math.random() - 0.5), y + 36 * (Math.random() - 0.5)];
      drag.rows.push(quantized(this.scene.directionAt(jx, jy, drag.index, drag.d)));
    }
    this.preview(drag);
  }

  /** Show edited tokens before they start to move. */
  preview({ rows, index, d, token, tool }) {
    const n = rows.length, x = Float32Array.from(rows.flat(), (value) => value / GRID);
    this.scene.reset(index);
    const labels = this.runs[index].frame.labels, same = labels && labels.length === n;
    const frame = { ...this.runs[index].frame, n, x, weights: null, labels: same ? labels : Int32Array.from({ length: n }, (_, i) => i) };
    this.scene.note(index, frame);
    this.runs[index].frame = frame;
    this.runs[index].x = this.scene.view(index).x;
    this.chosen = tool === "move" ? { view: index, token } : null;
    this.dirty = true;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.root.querySelector("dialog[open]")) return;
    const tag = event.target?.tagName;
    if (tag === "INPUT" && event.target.type !== "checkbox" && event.target.type !== "range") return;
    if (["SELECT", "TEXTAREA"].includes(tag) || (event.key === " " && ["BUTTON", "INPUT"].includes(tag))) return;
    const { attention } = this.config;
    const actions = {
      " ": () => (this.playing ? this.pause() : this.play()),
      ".": () => this.step(),
      r: () => this.start(true),
      t: () => this.setView({ trails: !this.view.trails }),
      f: () => this.setView({ field: !this.view.field }),
      n: () => this.parts.story.hidden || this.parts.story.querySelector("[data-next]")?.click(),
      "+": () => this.setModel({ attention: { ...attention, beta: nice(Math.min(200, attention.beta * 1.15 + 0.1)) } }),
      "=": () => actions["+"](),
      "-": () => this.setModel({ attention: { ...attention, beta: nice(Math.max(0, attention.beta / 1.15 - 0.1)) } }),
      "?": () => this.help(),
      Escape: () => this.view.story && (this.leaveStory(), this.remember()),
    };
    const action = actions[event.key] ?? actions[event.key.toLowerCase()];
    if (!action) return;
    event.preventDefault();
    action();
  }
}

/** Return how many clusters there are, with single tokens apart; groups that still form while most tokens are single. */
function clusterText({ clusters, labels, n }, groups) {
  const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
  if (!labels) return [Number.isNaN(clusters) ? "" : plural(clusters, "cluster"), plural(n, "token")].filter(Boolean).join(", ");
  const sizes = new Int32Array(clusters);
  for (const label of labels) sizes[label]++;
  const single = sizes.filter((size) => size === 1).length;
  if (groups > 0 && 2 * single > n) return `${plural(groups, "group")} forming`;
  return [clusters > single ? plural(clusters - single, "cluster") : "", single ? plural(single, "single token") : ""].filter(Boolean).join(", ");
}

/** Return a direction as whole numbers up to GRID. */
function quantized(direction) {
  const length = Math.hypot(...direction) || 1;
  return direction.map((value) => Math.round((value / length) * GRID));
}

function identity(d, scale) {
  return Array.from({ length: d }, (_, i) => Array.from({ length: d }, (__, j) => (i === j ? scale : 0)));
}

/** Round to a tenth below 10, and to a whole number from there on. */
function nice(beta) {
  return beta < 10 ? Math.round(beta * 10) / 10 : Math.round(beta);
}

const toN = (s) => Math.max(1, Math.min(MOST_TOKENS, Math.round(MOST_TOKENS ** s)));
const fromN = (n) => Math.log(n) / Math.log(MOST_TOKENS);

function shownTime({ time: t, logTime }) {
  if (t === Infinity) return `10^${(logTime / Math.LN10).toFixed(1)}`;
  return t >= 1e5 ? short(t) : t.toFixed(t < 100 ? 2 : 0);
}

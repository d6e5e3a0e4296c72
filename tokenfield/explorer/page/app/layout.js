/** The elements of the page, its theme, its notices and its help. */

import { check, icon, make, slider } from "../dom.js";
import { NOTES } from "../notes.js";
import { short } from "../numbers.js";
import { savePicture } from "../picture.js";
import { STORIES } from "../stories.js";
import { THEMES } from "../views/palette.js";
import { Scene } from "../views/scene.js";

const TOOLS = [
  ["turn", "Turn", "Drag to turn the sphere or the circle", "M16.5 5v4h-4M16.2 9A6.5 6.5 0 1 0 16.5 11.5"],
  ["add", "Add", "Click to add a token", "M10 4v12M4 10h12"],
  ["move", "Move", "Drag a token", "M10 3v14M3 10h14M8 5l2-2 2 2M8 15l2 2 2-2M5 8l-2 2 2 2M15 8l2 2-2 2"],
  ["paint", "Paint", "Drag to paint a cloud of tokens", "M6 6h.01M11 4.5h.01M8.5 9.5h.01M13.5 8.5h.01M5 13h.01M10.5 13.5h.01M15.5 13h.01"],
  ["remove", "Remove", "Click a token to remove it", "M5 5l10 10M15 5L5 15"],
];

/** Methods of App: app.js adds them to the class. */
export const layoutMethods = {
  build() {
    const parts = (this.parts = {});
    const button = (text, label, onclick, more = {}) => make("button", { text, "aria-label": label, title: label, onclick, ...more });
    parts.stories = make("select", { "aria-label": "Stories", onchange: () => parts.stories.value ? this.openStory(parts.stories.value) : this.leaveStory() },
      make("option", { value: "", text: "Guided stories…" }), ...STORIES.map(({ name, title }, k) => make("option", { value: name, text: `${k + 1}. ${title}` })));
    parts.films = ["WebM", "GIF"].map((format) => button(format, `Record a film (${format}); press again to stop`, () => this.film(format), { "data-format": format }));
    const header = make("header", {},
      make("h1", {}, make("span", { class: "mark", "aria-hidden": "true" }), make("span", { text: "tokenfield" })),
      parts.stories,
      make("div", { class: "group copies", role: "group", "aria-label": "Copy and save" },
        make("span", { class: "what", text: "Copy" }),
        button("Link", "Copy link", () => this.copy("link"), { class: "link" }),
        ...(parts.code = ["Python", "TOML"].map((what) => button(what, `Copy as ${what}`, () => this.copy(what), { class: "code", "data-code": what }))),
        make("span", { class: "what", text: "Save" }),
        button("PNG", "Save a picture (PNG)", () => savePicture(this)),
        ...parts.films),
      make("div", { class: "group" },
        (parts.theme = button("◐", "Light or dark", () => this.nextTheme())),
        button("?", "Help", () => this.help())));
    parts.canvas = make("canvas", { class: "scene", tabindex: "0", role: "img", "aria-label": "Tokens" });
    parts.clock = make("div", { class: "clock", "aria-live": "off" });
    parts.tools = make("div", { class: "tools", role: "radiogroup", "aria-label": "Mouse tool", onkeydown: (event) => this.chooseTool(event) },
      ...TOOLS.map(([name, text, about, path]) => make("button", { title: `${text}: ${about}`, "aria-label": text, role: "radio", "data-tool": name, onclick: () => this.setTool(name) }, icon(path))));
    parts.story = make("section", { class: "story", "aria-label": "Story", "aria-live": "polite", hidden: true });
    parts.notices = make("div", { class: "notices", role: "status" });
    parts.names = make("div", { class: "names", "aria-hidden": "true" });
    // Nothing lies over the canvas: each overlap would be one more layer for the browser to blend in every frame.
    const stage = make("section", { class: "stage", "aria-label": "Scene" },
      make("div", { class: "bar" }, parts.clock, parts.tools), make("div", { class: "view" }, parts.canvas, parts.names));
    parts.play = button("Play", "Play (space)", () => (this.playing ? this.pause() : this.play()), { class: "primary play" });
    parts.speed = slider("Speed", { min: -2, max: 2, step: 0.05, value: 0, shown: (v) => `${short(10 ** v)}${this.view.log ? " dec/s" : " /s"}`, title: "Units of time (or decades) per second", onchange: (v) => this.setPace({ speed: Number((10 ** v).toPrecision(3)) }) });
    parts.log = check("log time", false, (on) => this.setPace({ log: on, speed: on ? 0.3 : 1 }), "Time on a logarithmic scale, for long waits");
    const transport = make("div", { class: "transport", role: "group", "aria-label": "Time" },
      button("Rewind", "Rewind to the start (R)", () => this.start(true)), parts.play, button("Step", "One step (.)", () => this.step()), parts.speed.element, parts.log.element);
    parts.panels = make("section", { class: "panels", "aria-label": "Plots" });
    const key = make("p", { class: "key" }, make("span", { class: "measured", text: "measured" }), make("span", { class: "predicted", text: "theory: labels show formulas" }));
    parts.tip = make("div", { class: "tip", role: "tooltip", id: `tip-${Math.random().toString(36).slice(2, 8)}`, hidden: true });
    this.root.replaceChildren(header, make("main", {}, this.buildControls(), make("div", { class: "middle" }, parts.story, stage, parts.notices, transport), make("div", { class: "side" }, key, parts.panels)), parts.tip);
    this.scene = new Scene(parts.canvas, this.camera, this.options.canvas2d === true);
    this.root.dataset.renderer = this.scene.renderer.name;
    if (this.scene.renderer.name !== "WebGL2") this.say("This browser has no WebGL2: the scene is drawn with Canvas2D, which is slower.");
    parts.canvas.addEventListener("webglcontextlost", (event) => {
      event.preventDefault(); // so that it may come back
      this.say("The browser has stopped drawing the scene: its graphics are gone for a moment. The run goes on.");
    }, { signal: this.listeners.signal });
    parts.canvas.addEventListener("webglcontextrestored", () => {
      this.scene.restore();
      this.dirty = true;
    }, { signal: this.listeners.signal });
    this.panels = {};
    this.arrangePanels();
    this.listenToPointer(parts.canvas);
    this.setTool("turn");
    this.applyTheme();
    globalThis.matchMedia?.("(prefers-color-scheme: dark)").addEventListener("change", () => this.applyTheme(), { signal: this.listeners.signal });
    addEventListener("resize", () => (this.dirty = true), { signal: this.listeners.signal });
    addEventListener("scroll", () => this.playing || this.later("plots", () => this.drawPlots(true)), { signal: this.listeners.signal, capture: true, passive: true });
  },

  showPlaying() {
    const { play } = this.parts;
    play.textContent = this.playing ? "Pause" : "Play";
    play.setAttribute("aria-label", this.playing ? "Pause (space)" : "Play (space)");
    this.root.dataset.playing = String(this.playing);
  },

  /** Disable a button with the reason why, or enable it again if there is none. */
  tell(button, why) {
    button.disabled = why !== null;
    button.title = why ?? button.getAttribute("aria-label");
  },

  setTool(name) {
    this.tool = name;
    for (const each of this.parts.tools.children) {
      each.setAttribute("aria-checked", String(each.dataset.tool === name));
      each.tabIndex = each.dataset.tool === name ? 0 : -1;
    }
    this.parts.canvas.dataset.tool = name;
  },

  /** Go to the next or the previous tool by the arrow keys. */
  chooseTool(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const names = TOOLS.map(([name]) => name), at = (names.indexOf(this.tool) + step + names.length) % names.length;
    this.setTool(names[at]);
    this.parts.tools.children[at].focus();
  },

  nextTheme() {
    const dark = this.theme.dark;
    this.themeChoice = this.themeChoice === "auto" ? (dark ? "light" : "dark") : this.themeChoice === "dark" ? "light" : "dark";
    this.applyTheme();
  },

  applyTheme() {
    const system = globalThis.matchMedia?.("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    const name = this.themeChoice === "auto" ? system : this.themeChoice;
    this.theme = THEMES[name];
    this.root.dataset.theme = name;
    document.documentElement.dataset.theme = name;
    this.dirty = true;
    this.plotted = 0;
  },

  help() {
    const keys = [["space", "play or pause"], [".", "one step"], ["R", "rewind"], ["+ and −", "increase or decrease β"], ["arrows", "turn the sphere or the circle (scene in focus)"], ["T, F", "trails, vector field"], ["N", "next step of a story"], ["Esc", "leave a story"]];
    const dialog = make("dialog", {}, make("h2", { text: "Help" }),
      make("p", { text: "Tokens move on a sphere under self-attention. Change the model on the left while they move. Dashed violet lines in the plots are predictions of theory, without a simulation; the labels under a plot show the formula." }),
      make("p", { text: "Editing tokens starts a new run from what you see. The address of the page holds everything: copy it to show the same run to others." }),
      make("dl", {}, ...keys.flatMap(([key, text]) => [make("dt", { text: key }), make("dd", { text })])),
      make("p", { class: "fine", text: `Scene: ${this.scene.renderer.name}. Engine: ${this.mode === "live" ? "tokenfield on this machine" : this.mode === "replay" ? "a saved run" : "in this page, checked against tokenfield"}.` }),
      make("div", { class: "steps" },
        make("form", { method: "dialog" }, make("button", { class: "primary", text: "Close" })),
        make("button", { text: "Where formulas come from", onclick: () => (dialog.close(), this.theory()) })));
    this.show(dialog);
  },

  /** Show where the formulas come from, at a section of NOTES, and what tokenfield predicts for the run if a server says so. */
  theory(name = null) {
    const { docs } = this.options, rows = (this.info?.theory ?? []).filter(({ valid, value }) => valid && value !== null);
    const linked = (page) => (docs ? make("p", {}, make("a", { href: `${docs}${page}.html`, target: "_blank", rel: "noopener", text: "The whole theory, with checks" })) : make("p", { class: "fine", text: `The whole theory, with checks: docs/theory/${page}.md of tokenfield.` }));
    const sections = Object.entries(NOTES).map(([page, { title, text }]) => make("section", { id: `theory-${page}` }, make("h3", { text: title }),
      ...text.map((line) => make("p", line.startsWith("= ") ? { class: "formula", math: line.slice(2) } : { math: line })), linked(page)));
    const table = rows.length && make("section", { id: "theory-run" }, make("h3", { text: "Predictions of tokenfield for this model" }),
      make("dl", {}, ...rows.flatMap(({ name: what, value, formula, note }) => [make("dt", { text: what, title: note }), make("dd", {}, make("b", { text: typeof value === "number" ? short(value) : String(value) }), make("div", { class: "fine", text: formula }))])));
    const close = make("form", { method: "dialog" }, make("button", { class: "primary", text: "Close" }));
    const dialog = make("dialog", { class: "theory" }, make("h2", { text: "Where formulas come from", tabindex: "-1", autofocus: true }), table || null, ...sections, close);
    this.parts.tip.hidden = true;
    this.show(dialog);
    if (name) dialog.querySelector(`#theory-${name}`).scrollIntoView();
  },

  show(dialog) {
    this.root.append(dialog);
    dialog.addEventListener("close", () => dialog.remove());
    dialog.showModal();
  },

  /** Show a line to the reader, as text, with a button if there is one. */
  say(text, bad = false, button = null) {
    const { notices } = this.parts;
    if ([...notices.children].some((each) => each.firstChild.textContent === text)) return;
    const line = make("div", { class: bad ? "notice bad" : "notice" }, make("span", { text }), button, make("button", { class: "quiet", text: "×", "aria-label": "Dismiss", onclick: () => line.remove() }));
    notices.append(line);
    while (notices.children.length > 3) notices.firstChild.remove();
    if (!bad) setTimeout(() => line.remove(), button ? 20000 : 9000);
    return line;
  },
};

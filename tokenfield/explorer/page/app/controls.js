/** The controls at the left: made once, and set to what the state is. */

import { check, choice, make, slider } from "../dom.js";
import { dimension, MOST_TOKENS, tokenCount } from "../engine/config.js";
import { nice, short } from "../numbers.js";

const KERNEL_NAMES = [["softmax", "Softmax"], ["unnormalized", "Unnormalized"], ["l2", "L2"], ["sigmoid", "Sigmoid"], ["hardmax", "Hardmax"]];
const NORM_NAMES = [["post", "Post-LN"], ["pre", "Pre-LN"], ["peri", "Peri-LN"], ["mix", "Mix-LN"], ["ngpt", "nGPT"], ["sqrt", "1/√(t+1) scaling"]];
const START_NAMES = [["sphere", "Uniform"], ["hemisphere", "Half"], ["clusters", "Groups"], ["hand", "By hand"]];
const MATRICES = {
  2: { stretch: [[1, 0], [0, 0.4]], turn: [[0.6, -0.8], [0.8, 0.6]], saddle: [[1, 0], [0, -1]] },
  3: { stretch: [[1, 0, 0], [0, 0.6, 0], [0, 0, 0.2]], turn: [[0.6, -0.8, 0], [0.8, 0.6, 0], [0, 0, 1]], saddle: [[1, 0, 0], [0, 1, 0], [0, 0, -1]] },
};

/** Methods of App: app.js adds them to the class. */
export const controlsMethods = {
  buildControls() {
    const parts = this.parts, a = () => this.config.attention;
    const attention = (patch) => this.setModel({ attention: patch });
    const toBeta = (s) => nice(200 * s ** 3), fromBeta = (beta) => Math.cbrt(Math.max(0, beta) / 200);
    parts.kernel = choice("Kernel", KERNEL_NAMES, "softmax", (kind) => attention({ kind, ...(kind === "l2" ? { A: null } : {}) }), "How scores become attention: softmax is the SA flow, unnormalized the USA flow");
    parts.beta = slider("β", { min: 0, max: 1, step: 0.002, value: fromBeta(9), shown: (s) => short(toBeta(s)), title: "Inverse temperature: larger is sharper", onchange: (s) => attention({ beta: toBeta(s) }) });
    parts.A = this.matrixControl("A", "Score matrix: s(x, y) = ⟨Ax, y⟩", (A) => attention({ A }));
    parts.V = this.matrixControl("V", "Value matrix", (V) => attention({ V }));
    parts.causal = check("causal", false, (causal) => attention({ causal }), "Token i sees tokens 1 to i only");
    parts.rule = check("attend to others", false, (on) => attention({ rule: on ? "others" : "self" }), "Hardmax: a token does not attend to itself, or to tokens at the same place");
    parts.norm = choice("Norm", NORM_NAMES, "post", (kind) => this.setModel({ norm: { kind }, ...(kind === "post" || !this.config.noise ? {} : { noise: null }) }), "Where layer normalization is applied");
    parts.tau = slider("τ", { min: 0.1, max: 10, step: 0.1, value: 2, shown: short, title: "Mix-LN: time at which Post-LN ends", onchange: (tau) => this.setModel({ norm: { tau } }) });
    parts.alpha = slider("α", { min: 0.1, max: 4, step: 0.1, value: 1, shown: short, title: "nGPT: rate", onchange: (alpha) => this.setModel({ norm: { alpha } }) });
    parts.noisy = check("noise", false, (on) => this.setModel({ noise: on ? { kappa: 4 } : null, ...(on && this.config.norm.kind !== "post" ? { norm: { kind: "post" } } : {}) }), "Brownian motion of strength √(2/κ); needs Post-LN");
    parts.kappa = slider("κ", { min: -1, max: 3, step: 0.01, value: 0.6, shown: (v) => short(10 ** v), title: "Inverse noise: smaller is noisier", onchange: (v) => this.setModel({ noise: { kappa: Number((10 ** v).toPrecision(3)) } }) });
    parts.compare = choice("Compare", [["", "Nothing"], ...NORM_NAMES], "", (kind) => {
      this.view.compare = kind || null;
      this.start();
    }, "Run a second norm beside this one");
    const tokens = (patch) => {
      const t = { n: tokenCount(this.config.tokens), d: dimension(this.config.tokens), ...this.config.tokens, ...this.tables?.data.tokens };
      const known = START_NAMES.some(([kind]) => kind === (t.kind ?? "sphere")) && !t.x;
      const next = { kind: known ? (t.kind ?? "sphere") : "sphere", n: t.n, d: t.d, seed: t.seed ?? 0, k: t.k, spread: t.spread, ...patch };
      this.setTokens(next.kind === "clusters" ? { ...next, k: Math.min(next.k ?? 4, next.n) } : { kind: next.kind, n: next.n, d: next.d, seed: next.seed }, known && !patch.kind ? patch : null);
    };
    parts.space = choice("Space", [["3", "Sphere"], ["2", "Circle"]], "3", (d) => {
      if (this.config.attention.A || Array.isArray(this.config.attention.V)) {
        if (this.tables) this.changeTables({ A: null, V: null, beta: a().beta });
        else this.config = { ...this.config, attention: { ...a(), A: null, V: null } };
      }
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
  },

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
  },

  /** Add choices to a menu, as [value, text], unless it has them. */
  offer({ select }, choices) {
    const known = new Set(Array.from(select.options, ({ value }) => value));
    for (const [value, text] of choices ?? []) if (!known.has(value)) select.append(make("option", { value, text: text[0].toUpperCase() + text.slice(1) }));
  },

  /** Do something once the reader has stopped moving a slider. */
  later(key, action) {
    this.waiting ??= {};
    clearTimeout(this.waiting[key]);
    this.waiting[key] = setTimeout(action, 120);
  },

  setView(patch) {
    Object.assign(this.view, patch);
    this.dirty = true;
    this.refresh();
    this.remember();
  },

  /** Make the controls say what the state is. */
  refresh() {
    const { parts, config, view } = this, { attention, norm, noise, tokens } = config, d = dimension(tokens), data = this.tables?.data;
    parts.kernel.set(data?.attention?.kind ?? attention.kind); // blank for one that is in no menu
    parts.beta.set(Math.cbrt(Math.max(0, attention.beta) / 200));
    parts.beta.element.querySelector("output").textContent = short(attention.beta);
    parts.beta.element.hidden = attention.kind === "hardmax" || (attention.A !== null && attention.kind !== "l2");
    const hidden = data?.attention?.A && !attention.A; // a matrix that the page does not show
    if (hidden) parts.beta.element.hidden = true;
    parts.A.set(attention.A, d);
    parts.A.element.hidden = attention.kind === "l2" || Boolean(hidden);
    parts.V.set(attention.V, d);
    parts.causal.set(attention.causal);
    parts.rule.set(attention.rule === "others");
    parts.rule.element.hidden = attention.kind !== "hardmax";
    parts.norm.set(data?.norm?.kind ?? norm.kind);
    parts.tau.element.hidden = norm.kind !== "mix";
    parts.tau.set(norm.tau ?? 2);
    parts.alpha.element.hidden = norm.kind !== "ngpt";
    parts.alpha.set(norm.alpha ?? 1);
    parts.noisy.set(noise !== null);
    parts.kappa.element.hidden = noise === null;
    if (noise) parts.kappa.set(Math.log10(noise.kappa));
    parts.compare.set(view.compare ?? "");
    const known = { n: tokenCount(tokens), d, ...data?.tokens, ...(data && this.info?.n ? { n: this.info.n, d: this.info.d } : {}) }; // of a run file, which may hold more than the page does
    parts.space.set(String(known.d));
    parts.startKind.set(tokens.x || tokens.kind === "circle" ? "hand" : tokens.kind);
    parts.n.set(fromN(known.n));
    parts.n.element.querySelector("output").textContent = String(known.n);
    parts.k.element.hidden = parts.spread.element.hidden = tokens.kind !== "clusters";
    parts.k.set(tokens.k ?? 4);
    parts.spread.set(tokens.spread ?? 0.1);
    if (document.activeElement !== parts.seed) parts.seed.value = String(tokens.seed ?? 0);
    parts.trails.set(view.trails);
    parts.field.set(view.field);
    parts.field.element.hidden = Boolean(config.foreign); // the page has no velocities of this model
    for (const button of parts.code) if (button.dataset.code === "Python") this.tell(button, this.tables ? "The page does not know all of this run: copy it as TOML" : null);
    parts.speed.set(Math.log10(view.speed));
    parts.log.set(view.log);
    const names = Object.fromEntries(NORM_NAMES), own = parts.norm.select.selectedOptions[0]?.text ?? "";
    if (!this.root.classList.contains("gaussian")) parts.names.replaceChildren(...(this.runs.length > 1 ? [make("span", { text: own, class: "first" }), make("span", { text: names[view.compare], class: "second" })] : []));
    this.showPlaying();
  },
};

function identity(d, scale) {
  return Array.from({ length: d }, (_, i) => Array.from({ length: d }, (__, j) => (i === j ? scale : 0)));
}

const toN = (s) => Math.max(1, Math.min(MOST_TOKENS, Math.round(MOST_TOKENS ** s)));

const fromN = (n) => Math.log(n) / Math.log(MOST_TOKENS);

/** The plots at the right, their labels and the tips of these. */

import { make, math } from "../dom.js";
import { TOKENS } from "../frames.js";
import { measureInfluence } from "../influence.js";
import { PANELS, PANELS_OF } from "../panels.js";
import { Plot } from "../views/plot.js";

const MARK_PERIOD = 800; // least milliseconds between two changes of the labels of one plot
const REPLACED = { sweep: ["attention"], influence: ["energy", "modes"], context: ["modes"] }; // plots that make room for those of stories
const STORY_PANELS = 5; // the plot of a story is as wide as two

/** Methods of App: app.js adds them to the class. */
export const plotsMethods = {
  arrangePanels() {
    const shown = this.wanted?.show, less = REPLACED[shown], usual = PANELS_OF[this.kind ?? TOKENS];
    const names = shown ? [shown, ...usual.filter((name) => name !== shown && !less?.includes(name))].slice(0, STORY_PANELS) : usual;
    for (const name of Object.keys(this.panels)) if (!names.includes(name)) delete this.panels[name];
    for (const name of names) this.panels[name] ??= this.makePanel(name);
    for (const name of names) this.panels[name].figure.classList.toggle("wanted", name === shown);
    this.parts.panels.replaceChildren(...names.map((name) => this.panels[name].figure));
    this.plotted = 0;
  },

  makePanel(name) {
    const { title, about } = PANELS[name], canvas = make("canvas", { role: "img", "aria-label": title });
    const marks = make("div", { class: "marks" }), readout = make("span", { class: "readout", "aria-hidden": "true" });
    const head = make("button", { class: "about", text: title, onfocus: () => this.showTip(head, { formula: about }), onblur: () => this.hideTip(), onmouseenter: () => this.showTip(head, { formula: about }), onmouseleave: () => this.hideTip() });
    const figure = make("figure", { class: "panel", "data-panel": name }, make("figcaption", {}, head, readout), canvas, marks);
    return { figure, canvas, marks, readout, plot: new Plot(canvas), known: "", chips: [], marked: 0 };
  },

  /** Draw the next plot in turn, or all of them. One at a time keeps the scene smooth where there is no GPU. */
  drawPlots(all = false) {
    if (!this.runs.length || !this.runs[0].frame) return;
    const names = Object.keys(this.panels).filter((name) => {
      const box = this.panels[name].canvas.getBoundingClientRect();
      return box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
    });
    if (!names.length) return;
    this.turn = ((this.turn ?? -1) + 1) % names.length;
    for (const name of all ? names : [names[this.turn]]) this.drawPlot(name, this.panels[name]);
  },

  drawPlot(name, panel) {
    const { runs, theme, view, sweep, influence, gamma } = this;
    if (name === "influence") this.measure();
    const { spec, marks, text, readout = [] } = PANELS[name].make({ runs, theme, log: view.log, sweep, influence, gamma: gamma ?? undefined });
    panel.plot.draw(spec, theme);
    showReadout(panel.readout, readout);
    const now = performance.now(), known = JSON.stringify(marks);
    if (known === panel.known || (panel.marked && now - panel.marked < MARK_PERIOD && this.playing)) return;
    Object.assign(panel, { known, marked: now });
    panel.canvas.setAttribute("aria-label", `${PANELS[name].title}. ${text}`);
    marks.forEach((mark, k) => {
      panel.chips[k] ??= this.makeMark();
      const chip = panel.chips[k];
      if (chip.mark?.label !== mark.label) chip.element.replaceChildren(...math(mark.label));
      chip.mark = mark;
    });
    panel.chips.length = marks.length;
    if (panel.marks.children.length !== marks.length) panel.marks.replaceChildren(...panel.chips.map(({ element }) => element));
  },

  makeMark() {
    const chip = { mark: null, element: null }, show = () => this.showTip(chip.element, chip.mark), hide = () => this.hideTip();
    chip.element = make("button", { class: "markchip", onfocus: show, onmouseenter: show, onclick: show, onblur: hide, onmouseleave: hide });
    return chip;
  },

  showTip(element, { formula, when, page }) {
    const { tip } = this.parts;
    clearTimeout(this.tipTimer);
    const source = page ? make("button", { class: "textlink", text: "Where it comes from", onclick: () => this.theory(page) }) : "";
    tip.replaceChildren(make("div", { class: page ? "formula" : "", math: formula }), when ? make("div", { class: "fine", math: `Holds for: ${when}.` }) : "", source);
    tip.hidden = false;
    tip.onmouseenter = () => clearTimeout(this.tipTimer);
    tip.onmouseleave = () => this.hideTip();
    element.setAttribute("aria-describedby", tip.id);
    const box = element.getBoundingClientRect(), own = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(innerWidth - own.width - 8, box.left))}px`;
    tip.style.top = `${box.bottom + own.height + 8 > innerHeight ? Math.max(4, box.top - own.height - 6) : box.bottom + 6}px`;
  },

  hideTip() {
    clearTimeout(this.tipTimer);
    this.tipTimer = setTimeout(() => (this.parts.tip.hidden = true), 200);
  },

  measure() {
    const [run] = this.runs, t = Math.min(run.frame.time, 40);
    if (t < 0.05 || (this.influence && Math.abs(t - this.influence.t) < 0.08)) return;
    this.influence = { t, values: measureInfluence(run.config, t) };
  },
};

/** Show the last values of a plot in the colors of its lines. */
function showReadout(element, readout) {
  while (element.children.length > readout.length) element.lastChild.remove();
  readout.forEach(({ text, color }, k) => {
    const part = element.children[k] ?? element.appendChild(make("span"));
    if (part.textContent !== text) part.textContent = text;
    if (part.style.color !== color) part.style.color = color;
  });
}

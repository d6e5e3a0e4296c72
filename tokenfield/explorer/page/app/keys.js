/** The keyboard. */

import { nice } from "../numbers.js";

/** Methods of App: app.js adds them to the class. */
export const keysMethods = {
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
      "+": () => this.setModel({ attention: { beta: nice(Math.min(200, attention.beta * 1.15 + 0.1)) } }),
      "=": () => actions["+"](),
      "-": () => this.setModel({ attention: { beta: nice(Math.max(0, attention.beta / 1.15 - 0.1)) } }),
      "?": () => this.help(),
      Escape: () => this.view.story && (this.leaveStory(), this.remember()),
    };
    const action = actions[event.key] ?? actions[event.key.toLowerCase()];
    if (!action) return;
    event.preventDefault();
    action();
  },
};

/** Links, copies as code, and films. */

import { toPython, toToml, withEnd } from "../copy.js";
import { make } from "../dom.js";
import { writeLink } from "../link.js";
import { startFilm } from "../picture.js";

/** Methods of App: app.js adds them to the class. */
export const shareMethods = {
  remember() {
    if (!this.options.link || this.mode === "replay") return;
    clearTimeout(this.linkTimer);
    this.linkTimer = setTimeout(() => {
      this.written = this.link();
      history.replaceState(null, "", `${location.pathname}${location.search}#${this.written}`);
    }, 250);
  },

  link() {
    return writeLink(this.config, { ...this.view, yaw: this.camera.yaw, pitch: this.camera.pitch, spin: this.camera.spin }, this.tables);
  },

  async copy(what) {
    const t1 = Math.max(this.runs[0]?.frame?.time ?? 0, 1) > 1 ? this.runs[0].frame.time : 10;
    const text = {
      link: () => `${location.href.split("#")[0]}#${this.link()}`,
      Python: () => toPython(this.config, t1),
      TOML: () => (this.tables ? withEnd(this.info?.toml ?? "", t1) : toToml(this.config, t1)),
    }[what]();
    this.lastCopy = text;
    try {
      await navigator.clipboard.writeText(text);
      this.say(what === "link" ? "The link is on the clipboard." : `The ${what} is on the clipboard.`);
    } catch {
      this.showText(what, text);
    }
  },

  showText(what, text) {
    const area = make("textarea", { readonly: true, rows: "14", "aria-label": what });
    area.value = text;
    const dialog = make("dialog", {}, make("h2", { text: what === "link" ? "Link" : what }), make("p", { text: "This browser does not let the page use the clipboard. Copy the text from here." }), area, make("form", { method: "dialog" }, make("button", { text: "Close" })));
    this.root.append(dialog);
    dialog.addEventListener("close", () => dialog.remove());
    dialog.showModal();
    area.select();
  },

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
  },
};

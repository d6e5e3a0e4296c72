/** Stories: their scenes and the card that tells them. */

import { make } from "../dom.js";
import { readConfig } from "../engine/config.js";
import { STORIES } from "../stories.js";

/** Methods of App: app.js adds them to the class. */
export const guideMethods = {
  openStory(name, step = 0, keepView = false) {
    const story = STORIES.find((each) => each.name === name);
    if (!story) return;
    const at = Math.max(0, Math.min(story.steps.length - 1, step)), scene = story.steps[at];
    Object.assign(this.view, { story: name, step: at, log: false, speed: 1, field: false, ...scene.pace, compare: scene.compare ?? null });
    this.config = readConfig(scene.config).config;
    this.sweep = null;
    this.influence = null;
    this.gamma = scene.context ?? null;
    this.tables = null;
    this.wanted = scene;
    this.turnToTokens = !keepView;
    this.playing = !this.still;
    this.start(true);
    if (scene.sweep) this.startSweep(scene.sweep);
    this.showStory(story, at, scene);
    this.arrangePanels();
  },

  leaveStory() {
    if (!this.view.story) return;
    Object.assign(this.view, { story: null, step: 0 });
    this.sweep = this.influence = this.gamma = this.wanted = null;
    this.parts.story.hidden = true;
    this.parts.stories.value = "";
    this.arrangePanels();
  },

  showStory(story, at, scene) {
    const { story: card } = this.parts, last = at === story.steps.length - 1;
    const next = STORIES[(STORIES.indexOf(story) + 1) % STORIES.length];
    card.hidden = false;
    this.parts.stories.value = story.name;
    const dots = story.steps.map((_, k) => make("button", { class: k === at ? "dot on" : "dot", "aria-label": `Step ${k + 1}`, "aria-current": k === at ? "step" : null, onclick: () => this.openStory(story.name, k) }));
    card.replaceChildren(
      make("button", { class: "quiet leave", text: "×", title: "Leave the story (Esc)", "aria-label": "Leave the story", onclick: () => (this.leaveStory(), this.remember()) }),
      make("h2", {}, make("span", { class: "number", text: `${STORIES.indexOf(story) + 1}` }), story.title),
      make("p", { math: scene.text }),
      make("div", { class: "steps" },
        make("button", { text: "Back", disabled: at === 0, onclick: () => this.openStory(story.name, at - 1) }),
        make("span", { class: "dots" }, ...dots),
        last
          ? make("button", { class: "primary", text: "Next story", title: next.title, "aria-label": `Next story: ${next.title}`, onclick: () => this.openStory(next.name) })
          : make("button", { class: "primary", text: "Next", "data-next": "", onclick: () => this.openStory(story.name, at + 1) }),
      ),
    );
  },

  /** Say what there is to see, and offer the first story. */
  introduce() {
    const [first] = STORIES;
    const begin = make("button", { class: "primary", text: "Show me", onclick: () => (line.remove(), this.openStory(first.name)) });
    const line = this.say("Every dot is a token, and attention pulls them together. Drag β while they move.", false, begin);
  },
};

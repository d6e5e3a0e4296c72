/** Colors that people with any color vision can tell apart (Okabe and Ito), as [r, g, b] from 0 to 1. */

const ON_LIGHT = ["0072b2", "e69f00", "009e73", "d55e00", "cc79a7", "56b4e9", "b3a800", "7a5cc0"];
const ON_DARK = ["4196e8", "ffb52e", "1fc795", "f2703a", "ea9cc8", "9ad8ff", "d8cc3a", "ab8cf2"];
const COLORS = ON_LIGHT.length;

/** Colors of the scene and the plots in light and dark. */
export const THEMES = {
  light: {
    dark: false, palette: ON_LIGHT.map(rgb), text: "#1c2530", muted: "#5b6875", grid: "#d9dfe6", background: "#ffffff", clear: [1, 1, 1],
    line: "#0067a3", second: "#b84a00", theory: "#6b3fa0",
    single: rgb("5b7287"), sphere: [0.86, 0.9, 0.945, 0.62], rim: [0.45, 0.52, 0.6, 0.9], wire: [0.4, 0.5, 0.6, 0.22],
  },
  dark: {
    dark: true, palette: ON_DARK.map(rgb), text: "#e6ebf0", muted: "#9aa7b4", grid: "#2b3642", background: "#10161d", clear: rgb("10161d"),
    line: "#56b4e9", second: "#f0a050", theory: "#c8a2f2",
    single: rgb("9fb3c8"), sphere: [0.1, 0.15, 0.2, 0.66], rim: [0.5, 0.6, 0.7, 0.8], wire: [0.6, 0.7, 0.8, 0.2],
  },
};

function rgb(hex) {
  return [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255);
}

/** Return the color that the fewest clusters have, or the own one if it is among these. */
function leastUsed(used, own) {
  const least = Math.min(...used.values());
  return used.get(own) === least ? own : [...used].find(([, count]) => count === least)[0];
}

/**
 * Colors of clusters that stay with them: a cluster keeps the color of its members when it grows or merges, and single
 * tokens have no color of their own.
 */
export class ClusterColors {
  constructor() {
    this.reset(0);
  }

  reset(n) {
    this.color = new Int16Array(n).fill(-1);
  }

  /** Return the color of each token: an index of the palette, or -1. */
  update(labels, n) {
    if (this.color.length !== n) this.reset(n);
    const members = new Map();
    for (let i = 0; i < n; i++) {
      const group = members.get(labels[i]);
      if (group) group.push(i);
      else members.set(labels[i], [i]);
    }
    const least = Math.max(2, Math.ceil(n / 100)), used = new Map(), groups = [...members.values()];
    groups.sort((a, b) => b.length - a.length);
    for (const group of groups) {
      if (group.length < least && n > 12) {
        for (const i of group) this.color[i] = -1;
        continue;
      }
      const votes = new Map();
      for (const i of group) if (this.color[i] >= 0) votes.set(this.color[i], (votes.get(this.color[i]) ?? 0) + 1);
      const ranked = [...votes].sort((a, b) => b[1] - a[1]).map(([color]) => color);
      let chosen = ranked.find((color) => !used.has(color));
      if (chosen === undefined) {
        chosen = Array.from({ length: COLORS }, (_, k) => k).findIndex((k) => !used.has(k));
        if (chosen < 0) chosen = leastUsed(used, ranked[0]);
      }
      used.set(chosen, (used.get(chosen) ?? 0) + 1);
      for (const i of group) this.color[i] = chosen;
    }
    return this.color;
  }
}

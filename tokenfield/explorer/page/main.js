/** The page on its own: read the options and show the explorer. */

import { mount } from "./app.js";

const text = (id) => document.getElementById(id)?.textContent;
const options = { link: true, ...JSON.parse(text("tokenfield") ?? "{}") };
if (text("tokenfield-worker")) options.worker = text("tokenfield-engine") + text("tokenfield-worker"); // a page that is one file
mount(document.getElementById("app"), options);

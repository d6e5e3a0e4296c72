/** The page on its own: read the options and show the explorer. */

import { mount } from "./app.js";

const element = document.getElementById("tokenfield");
mount(document.getElementById("app"), { link: true, ...(element ? JSON.parse(element.textContent) : {}) });

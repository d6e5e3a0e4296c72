/** The page on its own: read the options and show the explorer. */

import { mount } from "./app.js";

const element = document.getElementById("tokenfield");
let options = globalThis.tokenfield ?? {};
if (element && !globalThis.tokenfield) options = JSON.parse(element.textContent);
mount(document.getElementById("app"), { link: true, ...options });

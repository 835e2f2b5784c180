// In a worker of its own: a browser slows the clocks of tabs in the background down, but not those of workers.
"use strict";
setInterval(() => postMessage(null), 1000);

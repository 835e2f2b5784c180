// Draws figures when they come into view, and puts in what the server says has changed.
"use strict";
const events = document.body.dataset.events;
const drawn = new Map(); // address of a figure -> {box, position, figure}
let plotly = null;

function loadPlotly() {
  plotly ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = document.body.dataset.plotly;
    script.onload = resolve;
    script.onerror = reject;
    document.head.append(script);
  });
  return plotly;
}

async function fetched(address, position) {
  const glue = address.includes("?") ? "&" : "?";
  const answer = await fetch(address + (position ? `${glue}since=${encodeURIComponent(position)}` : ""));
  return answer.ok ? answer.json() : null;
}

// Points at the ends of lines, or whole lines, as `ablate/live/deltas.py` makes them.
function apply(figure, delta) {
  for (const [index, points] of Object.entries(delta.extended)) {
    for (const [part, values] of Object.entries(points)) figure.data[index][part] = [...figure.data[index][part], ...values];
    figure.data[index] = { ...figure.data[index] };
  }
  for (const [index, line] of Object.entries(delta.replaced)) figure.data[index] = line;
  if (delta.layout) figure.layout = delta.layout;
}

async function draw(address) {
  const state = drawn.get(address);
  if (state.busy) return;
  state.busy = true;
  try {
    const [news] = await Promise.all([fetched(address, state.position), loadPlotly()]);
    if (!news) return;
    state.position = news.position;
    if (news.whole) state.figure = news.whole;
    else if (news.delta) apply(state.figure, news.delta);
    else return;
    const layout = { ...state.figure.layout, uirevision: "kept" };
    // A finger that moves over a picture scrolls the page; a mouse zooms.
    layout.dragmode = matchMedia("(pointer: coarse)").matches ? false : "zoom";
    const config = { ...state.figure.config, displayModeBar: matchMedia("(pointer: coarse)").matches ? false : "hover" };
    config.toImageButtonOptions = { ...config.toImageButtonOptions, filename: address.split("/").pop().split(".")[0] };
    await Plotly.react(state.box, [...state.figure.data], layout, config);
    state.box.dataset.drawn = state.position;
  } catch {
    state.stale = true; // the server is gone, perhaps for a while only
  } finally {
    state.busy = false;
  }
}

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const state = drawn.get(entry.target.dataset.figure);
    if (!state) continue;
    state.visible = entry.isIntersecting;
    if (state.visible && state.stale) {
      state.stale = false;
      draw(entry.target.dataset.figure);
    }
  }
}, { rootMargin: "300px" });

function watchFigures(root) {
  for (const figure of root.querySelectorAll("[data-figure]")) {
    const address = figure.dataset.figure, known = drawn.get(address);
    const box = figure.querySelector(".plot");
    if (known) {
      if (known.box !== box) box.replaceWith(known.box); // what is drawn stays
    } else drawn.set(address, { box, position: "", stale: true, visible: false });
    seen.observe(figure);
  }
}

function refreshFigures() {
  for (const [address, state] of drawn) {
    if (!document.contains(state.box)) drawn.delete(address);
    else if (state.visible) draw(address);
    else state.stale = true;
  }
}

// What a reader has unfolded: by its figure, and its line without numbers, which change.
const named = (details) => (details.closest("figure")?.dataset.figure ?? "") + details.querySelector("summary").textContent.replace(/\d+/g, "");
const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";

// A fragment's text is new; what the reader has opened, scrolled and reached stays.
function replace(section, html) {
  if (section.querySelector("select:focus, input:focus")) return;
  const opened = new Set([...section.querySelectorAll("details[open]")].map(named));
  const scrolled = [...section.querySelectorAll(".wide, pre")].map((box) => [box.scrollLeft, box.scrollTop]);
  const reached = [...section.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  section.innerHTML = html;
  for (const details of section.querySelectorAll("details")) details.open = opened.has(named(details));
  watchFigures(section);
  [...section.querySelectorAll(".wide, pre")].forEach((box, at) => {
    if (scrolled[at]) [box.scrollLeft, box.scrollTop] = scrolled[at];
  });
  if (reached >= 0) section.querySelectorAll(FOCUSABLE)[reached]?.focus({ preventScroll: true });
}

function follow() {
  const glue = events.includes("?") ? "&" : "?";
  const ends = events.endsWith("?");
  const source = new EventSource(`${events}${ends ? "" : glue}cursor=${encodeURIComponent(document.body.dataset.cursor)}`);
  const live = document.getElementById("live");
  const say = (text, away) => { live.textContent = text; live.classList.toggle("away", away); };
  source.addEventListener("open", () => say("live", false));
  source.addEventListener("error", () => say("not connected", true));
  source.addEventListener("closed", () => { source.close(); say("stopped; `ablate ui` shows it again", true); });
  source.addEventListener("trouble", (event) => say(JSON.parse(event.data), true));
  source.addEventListener("changes", (event) => {
    for (const [name, html] of Object.entries(JSON.parse(event.data).fragments)) {
      const section = document.querySelector(`[data-fragment="${CSS.escape(name)}"]`);
      if (section) replace(section, html);
    }
    document.body.dataset.cursor = event.lastEventId;
    refreshFigures();
  });
  addEventListener("pagehide", () => source.close());
}

watchFigures(document);
if (drawn.size) loadPlotly(); // large: under way while figures are fetched
if (events) follow();

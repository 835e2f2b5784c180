// Draws figures when they come into view, and puts in what the server says has changed.
"use strict";
const drawn = new Map(); // address of a figure -> {box, position, figure}
let plotly = null;

function loadPlotly() {
  plotly ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = document.body.dataset.plotly;
    script.onload = resolve;
    script.onerror = (event) => { plotly = null; reject(event); };
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
  state.stale = state.busy; // once more when what is under way has arrived
  if (state.busy) return;
  state.busy = true;
  try {
    const [news] = await Promise.all([fetched(address, state.position), loadPlotly()]);
    if (!news) throw new Error(address);
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
    if (state.visible && state.stale) draw(entry.target.dataset.figure);
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

function refreshFigures(changed) {
  for (const [address, state] of drawn) {
    if (!document.contains(state.box)) {
      drawn.delete(address);
      continue;
    }
    state.stale ||= changed;
    if (state.visible && state.stale) draw(address);
  }
}

// What a reader has unfolded: by its figure, and its line without numbers, which change.
const named = (details) => (details.closest("figure")?.dataset.figure ?? "") + details.querySelector("summary").textContent.replace(/\d+/g, "");
const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";

// A form in which the reader may just choose stays where it is; all around it is new.
function put(section, html) {
  const made = document.createElement("template");
  made.innerHTML = html;
  const form = section.querySelector(":scope > form"), fresh = made.content.querySelector("form");
  const stays = form && fresh && (form.contains(document.activeElement) || form.outerHTML === fresh.outerHTML);
  if (!stays) return section.replaceChildren(made.content);
  for (const node of [...section.childNodes]) if (node !== form) node.remove();
  const nodes = [...made.content.childNodes], at = nodes.indexOf(fresh);
  form.before(...nodes.slice(0, at));
  form.after(...nodes.slice(at + 1));
}

// Of drawn intervals: each mark by its row, its kind and its number.
const marks = (section) => new Map([...section.querySelectorAll(".drawn svg > *")].map((mark) => {
  const kind = mark.classList[0], number = [...mark.parentNode.querySelectorAll(`.${kind}`)].indexOf(mark);
  return [`${mark.closest("tr").cells[0].textContent} ${kind} ${number}`, mark];
}));

// A mark moves from where it was; the dot of a new seed drops in.
function move(before, after) {
  if (!before.size || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  for (const [name, mark] of after) {
    const old = before.get(name), places = ["x", "width", "cx"].filter((place) => mark.hasAttribute(place));
    const at = (one) => Object.fromEntries(places.map((place) => [place, one.getAttribute(place)]));
    if (old) mark.animate([at(old), at(mark)], { duration: 900, easing: "ease-in-out" });
    else mark.animate([{ transform: "translateY(-4rem)", opacity: 0 }, {}], { duration: 900, easing: "cubic-bezier(.3, 1.3, .6, 1)" });
  }
}

// A fragment's text is new; what the reader has opened, scrolled and reached stays.
function replace(section, html) {
  const opened = new Set([...section.querySelectorAll("details[open]")].map(named));
  const scrolled = [...section.querySelectorAll(".wide, pre")].map((box) => [box.scrollLeft, box.scrollTop]);
  const reached = [...section.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  const drawings = marks(section);
  put(section, html);
  section.querySelectorAll("table").forEach(sort);
  move(drawings, marks(section));
  for (const details of section.querySelectorAll("details")) details.open = opened.has(named(details));
  watchFigures(section);
  [...section.querySelectorAll(".wide, pre")].forEach((box, at) => {
    if (scrolled[at]) [box.scrollLeft, box.scrollTop] = scrolled[at];
  });
  if (reached >= 0 && !section.contains(document.activeElement)) section.querySelectorAll(FOCUSABLE)[reached]?.focus({ preventScroll: true });
}

// Tables sort by a click on a heading; a table that is sent again keeps its order.
const sorted = new Map(); // table, by its fragment and its number -> [column, direction]
const numbered = (table) => {
  const section = table.closest("section");
  return `${section.id} ${[...section.querySelectorAll("table")].indexOf(table)}`;
};
const SIZES = { k: 1e3, M: 1e6, G: 1e9, T: 1e12 };

function worth(cell) {
  const text = (cell?.textContent ?? "").trim().replace("−", "-");
  const [, number, size] = text.match(/^[×+]?(-?[\d.,]+(?:e[+-]?\d+)?)([kMGT]?)/) ?? [];
  return number && !/^\d{4}-\d/.test(text) ? parseFloat(number.replace(/,/g, "")) * (SIZES[size] ?? 1) : text.toLowerCase();
}

function sort(table) {
  const [column, direction] = sorted.get(numbered(table)) ?? [];
  if (column === undefined) return;
  const compare = (one, other) => (typeof one === typeof other ? (one < other ? -1 : Number(one > other)) : typeof one === "number" ? -1 : 1);
  const rows = [...table.tBodies[0].rows].map((row) => [worth(row.cells[column]), row]);
  table.tBodies[0].append(...rows.sort(([one], [other]) => direction * compare(one, other)).map(([, row]) => row));
  [...table.tHead.rows[0].cells].forEach((cell, at) => {
    if (at === column) cell.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
    else cell.removeAttribute("aria-sort");
  });
}

function sortBy(heading) {
  const table = heading.closest("table"), column = heading.cellIndex;
  const [before, direction] = sorted.get(numbered(table)) ?? [];
  sorted.set(numbered(table), [column, before === column ? -direction : 1]);
  sort(table);
}

document.addEventListener("click", (event) => {
  const heading = event.target.closest("main thead th:not(.drawn)");
  if (heading) sortBy(heading);
});

function follow() {
  const { changes, ticks } = document.body.dataset, glue = changes.endsWith("?") ? "" : "&";
  const live = document.getElementById("live"), clock = new Worker(ticks);
  const say = (text, away) => {
    if (live.textContent !== text) live.textContent = text;
    live.classList.toggle("away", away);
  };
  let cursor = document.body.dataset.cursor, busy = false;

  async function ask() {
    const answer = await fetch(`${changes}${glue}cursor=${encodeURIComponent(cursor)}`);
    if (!answer.ok) throw new Error(answer.status);
    const news = await answer.json();
    for (const [name, html] of Object.entries(news.fragments)) {
      const section = document.querySelector(`[data-fragment="${CSS.escape(name)}"]`);
      if (section) replace(section, html);
    }
    refreshFigures(news.cursor !== cursor);
    cursor = news.cursor;
    say(news.trouble || news.state, Boolean(news.trouble));
    if (!news.is_last) return;
    clock.terminate();
    say("stopped; `ablate ui` shows it again", true);
  }

  clock.onmessage = async () => {
    if (busy) return;
    busy = true;
    await ask().catch(() => say("not connected", true));
    busy = false;
  };
}

watchFigures(document);
if (drawn.size) loadPlotly(); // large: under way while figures are fetched
if (document.body.dataset.changes) follow();

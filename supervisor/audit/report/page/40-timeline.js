// Calls over time: what was refused stands on top, so that it is seen however much was allowed.

const PLOT = {width: 1000, height: 96, foot: 18};

/** Steps of whole numbers of the data's steps, not more than fit. */
function steps() {
  const {steps: all, width} = DATA.times;
  const bin = Math.max(1, Math.ceil(all.length / 120));
  const merged = [];
  all.forEach((step, at) => {
    const into = merged[Math.floor(at / bin)] || (merged[Math.floor(at / bin)] = [0, 0, 0]);
    step.forEach((number, outcome) => { into[outcome] += number; });
  });
  return {merged: merged.length ? merged : [[0, 0, 0]], width: width * bin};
}

function drawTimeline() {
  const {merged, width} = steps();
  const place = document.getElementById("timeline");
  const most = Math.max(1, ...merged.map(step => step[0] + step[1] + step[2]));
  // The root keeps single calls visible beside bursts of thousands.
  const scale = most > 200 ? number => Math.sqrt(number / most) : number => number / most;
  const bar = PLOT.width / Math.max(merged.length, 12);
  const plot = svg("svg", {viewBox: `0 0 ${PLOT.width} ${PLOT.height + PLOT.foot}`, preserveAspectRatio: "none", class: "plot",
    role: "img", "aria-label": "Calls over time"});
  merged.forEach((step, at) => {
    const total = step[0] + step[1] + step[2];
    if (!total) return;
    const height = Math.max(3, scale(total) * (PLOT.height - 4));
    let top = PLOT.height;
    for (const outcome of [ALLOWED, WOULD, REFUSED]) {
      if (!step[outcome]) continue;
      const part = Math.max(2, height * step[outcome] / total);
      top -= part;
      plot.append(svg("rect", {x: at * bar + bar * 0.08, y: Math.max(0, top), width: bar * 0.84, height: part, rx: Math.min(2, bar / 4), class: "bar " + OUTCOMES[outcome].css}));
    }
  });
  plot.append(svg("line", {x1: 0, x2: PLOT.width, y1: PLOT.height + 0.5, y2: PLOT.height + 0.5, class: "axis"}));
  const brush = svg("rect", {class: "brush", y: 0, height: PLOT.height, x: 0, width: 0});
  plot.append(brush);
  const total = width * PLOT.width / bar;
  const labels = el("div", {class: "axis-labels", "aria-hidden": "true"},
    [0, 0.25, 0.5, 0.75, 1].map(part => el("span", null, part === 0 ? "0" : "+" + span(Math.round(total * part)))));
  const tip = el("div", {class: "tip", hidden: true});
  put(place, el("div", {class: "plot-box"}, plot, tip), labels);
  watchBrush(plot, brush, tip, {merged, width, bar, scaled: most > 200});
  put(document.getElementById("legend"), OUTCOMES.map((one, outcome) => DATA.totals[outcome]
    ? el("span", {class: "key"}, el("i", {class: one.css}), one.label.toLowerCase()) : null),
    most > 200 ? el("span", {class: "quiet"}, "heights by square root") : null);
  document.addEventListener("filter", () => {
    if (FILTER.from === null) brush.setAttribute("width", 0);
  });
}

function watchBrush(plot, brush, tip, {merged, width, bar}) {
  const start = DATA.times.start;
  let begun = null;
  const at = event => {
    const box = plot.getBoundingClientRect();
    return Math.min(PLOT.width, Math.max(0, (event.clientX - box.left) / box.width * PLOT.width));
  };
  const stepOf = x => Math.min(merged.length - 1, Math.floor(x / bar));
  const mark = (one, other) => {
    const [from, to] = [Math.min(one, other), Math.max(one, other)].map(stepOf);
    brush.setAttribute("x", from * bar);
    brush.setAttribute("width", (to - from + 1) * bar);
    return [start + from * width, start + (to + 1) * width];
  };
  plot.addEventListener("pointerdown", event => {
    begun = at(event);
    plot.setPointerCapture(event.pointerId);
  });
  plot.addEventListener("pointermove", event => {
    const x = at(event), step = merged[stepOf(x)];
    tip.hidden = false;
    tip.style.left = Math.min(88, Math.max(8, x / PLOT.width * 100)) + "%";
    tip.textContent = "+" + span(stepOf(x) * width) + " \u00b7 " +
      (OUTCOMES.map((one, outcome) => step[outcome] ? count(step[outcome]) + " " + one.label.toLowerCase() : "").filter(Boolean).join(", ") || "nothing");
    if (begun !== null) mark(begun, x);
  });
  plot.addEventListener("pointerleave", () => { tip.hidden = true; });
  plot.addEventListener("pointerup", event => {
    if (begun === null) return;
    [FILTER.from, FILTER.to] = mark(begun, at(event));
    begun = null;
    changed();
  });
}

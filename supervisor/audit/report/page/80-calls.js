// The calls one by one. Only the lines in sight are elements, whatever the number of calls.

const LIST = {box: null, inner: null, head: null, height: 32, active: -1, drawn: "", tall: 0};
const TALLEST = 8e6;  // pixels that every browser can scroll through

function makeList() {
  LIST.head = el("div", {class: "call call-head", "aria-hidden": "true"}, ["Time", "Verdict", "Operation", "Object", "Rule", "Program"].map(one => el("span", null, one)));
  LIST.inner = el("div", {class: "calls-inner"});
  LIST.box = el("div", {class: "calls", tabindex: "0", role: "listbox", "aria-label": "Calls, in the order of the record"}, LIST.head, LIST.inner);
  put(document.getElementById("calls"), LIST.box);
  LIST.box.addEventListener("scroll", drawRows, {passive: true});
  LIST.box.addEventListener("keydown", listKey);
  new ResizeObserver(() => { measureList(); }).observe(LIST.box);
}

function measureList() {
  const height = window.matchMedia("(max-width: 700px)").matches ? 58 : 32;
  LIST.height = height;
  LIST.drawn = "";
  drawRows();
}

/** Beyond what a browser can scroll, the thumb moves through more lines than pixels. */
function firstLine() {
  const rows = currentView.rows.length, whole = rows * LIST.height;
  const room = LIST.tall - LIST.box.clientHeight;
  const share = room > 0 ? Math.min(1, LIST.box.scrollTop / room) : 0;
  return whole <= TALLEST ? Math.floor(LIST.box.scrollTop / LIST.height) : Math.floor(share * (rows - LIST.box.clientHeight / LIST.height));
}

function drawCalls() {
  LIST.tall = Math.min(TALLEST, currentView.rows.length * LIST.height);
  LIST.inner.style.height = LIST.tall + "px";
  LIST.box.classList.toggle("short", LIST.tall < 480);
  LIST.active = -1;
  LIST.drawn = "";
  LIST.box.scrollTop = 0;
  drawRows();
}

function drawRows() {
  const rows = currentView.rows.length;
  if (rows * LIST.height <= TALLEST && LIST.tall !== rows * LIST.height) {
    LIST.tall = rows * LIST.height;
    LIST.inner.style.height = LIST.tall + "px";
  }
  const fits = Math.ceil(LIST.box.clientHeight / LIST.height) + 1;
  const from = Math.max(0, Math.min(firstLine() - 4, rows - 1)), to = Math.min(rows, from + fits + 8);
  const key = from + " " + to + " " + LIST.active;
  if (key === LIST.drawn) return;
  LIST.drawn = key;
  if (!rows) return put(LIST.inner, el("p", {class: "hint pad"}, CALLS.length ? "No call passes the filter." : "No call is on record."));
  const top = rows * LIST.height <= TALLEST ? from * LIST.height : Math.max(0, Math.min(LIST.box.scrollTop - 4 * LIST.height, LIST.tall - (to - from) * LIST.height));
  const made = [];
  for (let line = from; line < to; ++line) made.push(callLine(line, top + (line - from) * LIST.height));
  put(LIST.inner, made);
}

function callLine(line, top) {
  const call = currentView.rows[line];
  const node = CALLS.kind[call] < 0 ? eventCells(call) : callCells(call);
  node.style.top = top + "px";
  node.style.height = LIST.height + "px";
  node.setAttribute("role", "option");
  if (line === LIST.active) node.classList.add("active");
  node.setAttribute("aria-selected", String(line === LIST.active));
  node.addEventListener("click", () => { LIST.active = line; drawRows(); showCall(line); });
  return node;
}

function callCells(call) {
  const kind = KINDS[CALLS.kind[call]], process = PROCESSES[kind.process];
  return el("div", {class: "call " + OUTCOMES[kind.outcome].css},
    el("span", {class: "time mono"}, moment(CALLS.time[call])),
    el("span", null, el("span", {class: "verdict " + OUTCOMES[kind.outcome].css}, verdictText(kind))),
    el("span", {class: "op"}, kind.operation),
    el("span", {class: "object"}, name(objectText(OBJECTS[CALLS.object[call]]), {longest: 200}),
      CALLS.count[call] > 1 ? el("span", {class: "quiet"}, " \u00d7" + count(CALLS.count[call])) : null),
    el("span", {class: "rule"}, kind.rule ? name(ruleText(kind.rule), {longest: 60}) : el("i", null, kind.by)),
    el("span", {class: "program"}, name(baseName(kind.program) || "?", {longest: 40}), " ", el("span", {class: "quiet"}, String(process.pid || ""))));
}

function eventCells(call) {
  return el("div", {class: "call event"}, el("span", {class: "time mono"}, moment(CALLS.time[call])),
    el("span", {class: "event-text"}, name(STRINGS[CALLS.object[call]], {longest: 300})));
}

function listKey(event) {
  const step = {ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10}[event.key];
  if (event.key === "Enter" && LIST.active >= 0) return showCall(LIST.active);
  if (!step || !currentView.rows.length) return;
  event.preventDefault();
  LIST.active = Math.max(0, Math.min(currentView.rows.length - 1, LIST.active + step));
  const top = LIST.active * LIST.height, box = LIST.box;
  if (currentView.rows.length * LIST.height <= TALLEST) {
    if (top < box.scrollTop) box.scrollTop = top;
    if (top + LIST.height > box.scrollTop + box.clientHeight) box.scrollTop = top + LIST.height - box.clientHeight;
  } else {
    box.scrollTop = LIST.active / currentView.rows.length * LIST.tall;
  }
  drawRows();
}

/** One call, whole: nothing is shortened here. */
function showCall(line) {
  const call = currentView.rows[line], dialog = document.getElementById("details");
  const row = (term, ...value) => el("div", {class: "fact"}, el("dt", null, term), el("dd", null, value));
  const text = (term, value) => value ? row(term, el("span", {class: "mono wrap-any"}, nodes(value))) : null;
  const at = [moment(CALLS.time[call]) + " after the start", el("br"), clock(DATA.base + CALLS.time[call], 6)];
  const head = (title, css) => el("div", {class: "head"}, el("h2", {class: css || null}, title), el("span", {class: "spring"}),
    el("button", {type: "button", class: "plain", click: () => dialog.close()}, "Close"));
  if (CALLS.kind[call] < 0) {
    put(dialog, head("Record " + count(CALLS.sequence[call])), el("dl", {class: "facts"}, row("Time", at), text("Event", STRINGS[CALLS.object[call]])));
    dialog.showModal();
    return;
  }
  const kind = KINDS[CALLS.kind[call]], object = OBJECTS[CALLS.object[call]], process = PROCESSES[kind.process];
  const denial = DENIALS.find(one => one.object === CALLS.object[call] && one.operation === kind.operation && one.rule === kind.rule && one.outcome === kind.outcome);
  put(dialog, head(verdictText(kind) + " " + kind.operation, OUTCOMES[kind.outcome].css), el("dl", {class: "facts wide"},
    row("Object", el("span", {class: "mono wrap-any"}, nodes(objectText(object))), copyButton(objectText(object))),
    row("Time", at),
    row("Rule", kind.rule ? name(ruleText(kind.rule)) : "none", " (decided by " + kind.by + ")"),
    kind.reason ? row("Reason", name(kind.reason, {longest: 4000, font: ""})) : null,
    row("Carried out", {errno: "refused with ", kill: "the run was killed", on_behalf: "by callgate, on the judged object", continue: "by the kernel"}[kind.mechanism] || kind.mechanism, kind.mechanism === "errno" ? el("span", {class: "mono"}, kind.error) : null),
    kind.operations.length > 1 ? row("Asked at once", kind.operations.join(", ")) : null,
    text("Program", kind.program), row("Process", String(process.pid) + (process.parentPid ? ", started by " + process.parentPid : "")),
    row("Record", count(CALLS.sequence[call])),
    denial && denial.fix ? row("Would allow", el("code", {class: "mono wrap-any"}, nodes(denial.fix)), copyButton(denial.fix)) : null,
    denial && denial.also ? row("And", el("code", {class: "mono wrap-any"}, nodes(denial.also)), " where no other rule allows it") : null,
    denial && denial.note ? row("Note", denial.note) : null));
  dialog.showModal();
}

// An attacker may have chosen the texts. They become nodes, never markup.

// What a reader would not see, or that would move what is beside it: shown by its number.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}]/u;
const HIDDEN_ALL = new RegExp(HIDDEN.source, "gu");
const LONGEST = 160;

/** An element with attributes (functions are listeners) and children (texts or nodes). */
function el(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") node.addEventListener(key, value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) node.append(child);
  return node;
}

const SVG = "http://www.w3.org/2000/svg";
function svg(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function put(parent, ...children) {
  parent.replaceChildren(...children.flat(Infinity).filter(one => one !== null && one !== undefined));
}

function hiddenName(character) {
  return "U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
}

/** `text` with hidden characters as words that can be copied and searched for: for attributes and titles. */
function shown(text) {
  return HIDDEN.test(text) ? text.replace(HIDDEN_ALL, one => "<" + hiddenName(one) + ">") : text;
}

/** The same as nodes: hidden characters stand out. */
function nodes(text) {
  if (!HIDDEN.test(text)) return [text];
  const all = [];
  let at = 0;
  for (const match of text.matchAll(HIDDEN_ALL)) {
    if (match.index > at) all.push(text.slice(at, match.index));
    all.push(el("span", {class: "hidden-character", title: "a character that is not seen"}, hiddenName(match[0])));
    at = match.index + match[0].length;
  }
  if (at < text.length) all.push(text.slice(at));
  return all;
}

/** Where `text` may be cut without taking a character apart. */
function cutAt(text, index) {
  const unit = text.charCodeAt(index);
  return unit >= 0xDC00 && unit <= 0xDFFF ? index - 1 : index;
}

function shortened(text, longest) {
  if (text.length <= longest) return null;
  const half = longest >> 1;
  return [text.slice(0, cutAt(text, half)), text.slice(cutAt(text, text.length - half))];
}

/** A name, isolated from the direction of what is beside it. `whole`: a button shows all of a long one. */
function name(text, options) {
  const {longest = LONGEST, whole = false, tag = "bdi", font = " mono"} = options || {};
  const node = el(tag, {class: "name" + font, dir: "ltr"});
  const parts = shortened(text, longest);
  if (!parts) {
    node.append(...nodes(text));
    return node;
  }
  const middle = text.length - parts[0].length - parts[1].length;
  const gap = whole
    ? el("button", {type: "button", class: "gap", title: "show all " + text.length + " characters",
      click: event => { event.stopPropagation(); put(node, nodes(text)); }}, "\u2026 " + count(middle) + " more \u2026")
    : el("span", {class: "gap"}, "\u2026");
  node.append(...nodes(parts[0]), gap, ...nodes(parts[1]));
  return node;
}

const NUMBERS = new Intl.NumberFormat("en");
function count(number) { return NUMBERS.format(number); }
function plural(number, noun) { return count(number) + " " + noun + (number === 1 ? "" : "s"); }

/** Microseconds as people say it. */
function span(micros) {
  const sign = micros < 0 ? "-" : "";
  const value = Math.abs(micros);
  if (value < 1000) return sign + value + " \u00b5s";
  if (value < 1e6) return sign + (value / 1000).toFixed(value < 1e4 ? 1 : 0) + " ms";
  if (value < 60e6) return sign + (value / 1e6).toFixed(value < 10e6 ? 2 : 1) + " s";
  const seconds = Math.round(value / 1e6);
  if (seconds < 3600) return sign + Math.floor(seconds / 60) + " min " + seconds % 60 + " s";
  return sign + Math.floor(seconds / 3600) + " h " + Math.floor(seconds % 3600 / 60) + " min";
}

/** When in the run, to the millisecond: beyond a minute as a clock has it. */
function moment(micros) {
  if (micros < 60e6) return span(micros);
  const two = number => String(number).padStart(2, "0");
  const seconds = Math.floor(micros / 1e6), hours = Math.floor(seconds / 3600);
  return (hours ? hours + ":" + two(Math.floor(seconds / 60) % 60) : Math.floor(seconds / 60)) + ":" + two(seconds % 60) + "." +
    String(Math.floor(micros / 1000) % 1000).padStart(3, "0");
}

/** Microseconds since the epoch, in UTC. */
function clock(micros, digits) {
  const date = new Date(Math.floor(micros / 1000));
  if (Number.isNaN(date.getTime())) return "?";
  const text = date.toISOString().replace("T", " ");
  const fraction = String(((micros % 1e6) + 1e6) % 1e6).padStart(6, "0").slice(0, digits);
  return text.slice(0, 19) + (digits ? "." + fraction : "") + " UTC";
}

/** A button that copies; it says so itself, as nothing else could. */
function copyButton(text) {
  const button = el("button", {type: "button", class: "copy", click: async event => {
    event.stopPropagation();
    let done = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = el("textarea", {class: "copied"});
      area.value = text;
      button.parentNode.append(area);
      area.select();
      done = document.execCommand("copy");
      area.remove();
    }
    button.textContent = done ? "Copied" : "Not copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }}, "Copy");
  return button;
}

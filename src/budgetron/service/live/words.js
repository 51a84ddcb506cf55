"use strict";
// Text and elements for what the service sends. Names are inserted as text, never as markup.

const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
function tidy(name, longest = 60) {  // a name that any client may have chosen, as one short line
  const text = name == null ? "(no task)" : String(name);
  if (!text.trim()) return `(blank, ${text.length} characters)`;
  return (text.length <= longest ? text : text.slice(0, longest - 1) + "…").replace(UNSEEN, "\ufffd");
}
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}
const apart = b => b.linear * b.linear_own + b.kernel * b.kernel_own > b.linear + b.kernel;
function described(b) {
  const words = [["linear", "kernel"].filter(part => b[part] > 0).join(" + ")];
  if (Math.max(b.linear, b.kernel) >= 10) words.push("bold");
  words.push(apart(b) ? "tasks differ" : "tasks alike");
  if (b.floor) words.push("ever adapting");
  return words.join(", ");
}

"use strict";
// Functions that turn what the service sends into text and elements. Names are inserted as text, never as markup.

const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
function shorten(name, longest = 60) {  // shortens a name, which a client may have chosen freely, to one line
  const text = name == null ? "(no task)" : String(name);
  if (!text.trim()) return `(blank, ${text.length} characters)`;
  return (text.length <= longest ? text : text.slice(0, longest - 1) + "…").replace(INVISIBLE, "\ufffd");
}
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}
function shade(value) {  // the class of a cell: blue for alike, red for opposed, in five shades
  const step = Math.round(5 * Math.min(1, Math.abs(value)));
  return step ? `${value > 0 ? "plus" : "minus"}${step}` : "";
}

"use strict";
// A table that can be searched and sorted, by mouse and keyboard. It shows `step` rows first, and more on request.
//   new DataTable(element, {columns: [{label, format, bar, hint}], rows: [[name, number, ...]], sort: [column, -1 | 1],
//                           unit: "tasks", step: 25})
// Names are set as text and never as markup.
class DataTable {
  constructor(root, { columns, rows, sort, unit = "tasks", step = 25 }) {
    Object.assign(this, { root, columns, rows, sort, unit, step, shown: step, search: "" });
    const make = (tag, properties = {}, ...children) => {
      const element = Object.assign(document.createElement(tag), properties);
      element.append(...children);
      return element;
    };
    this.make = make;
    const box = make("input", { type: "search", autocomplete: "off", spellcheck: false });
    box.addEventListener("input", () => { this.search = box.value.trim().toLowerCase(); this.shown = this.step; this.fill(); });
    this.count = make("span", { className: "note" });
    this.count.setAttribute("role", "status");
    this.heads = columns.map((column, index) => {
      const button = make("button", { type: "button", textContent: column.label });
      button.addEventListener("click", () => this.sortBy(index));
      const head = make("th", { scope: "col", className: index ? "number" : "" }, button);
      if (column.hint) head.title = column.hint;
      return head;
    });
    this.body = make("tbody");
    this.more = make("button", { type: "button", className: "plain" });
    this.more.addEventListener("click", () => { this.shown += 4 * this.step; this.fill(); });
    const scroll = make("div", { className: "scroll" },
      make("table", { className: "wide" }, make("thead", {}, make("tr", {}, ...this.heads)), this.body));
    root.replaceChildren(
      make("div", { className: "tools" }, make("label", {}, `Search ${unit} `, box), this.count), scroll, this.more);
    this.fill();
  }

  sortBy(index) {  // the same column again reverses the order; numbers begin with the largest
    const [old, direction] = this.sort;
    this.sort = [index, old === index ? -direction : index ? -1 : 1];
    this.fill();
  }

  update(rows) { this.rows = rows; this.fill(); }

  matchingRows() {
    const [index, direction] = this.sort;
    const rows = this.search ? this.rows.filter(row => row[0].toLowerCase().includes(this.search)) : [...this.rows];
    const compare = index ? (a, b) => a - b : (a, b) => a.localeCompare(b, "en", { numeric: true });
    return rows.sort((a, b) => {  // unknown values come last in both directions
      const [left, right] = [a[index], b[index]];
      return left == null || right == null ? (left == null) - (right == null) : direction * compare(left, right);
    });
  }

  fill() {
    const rows = this.matchingRows(), { make } = this;
    this.heads.forEach((head, index) => head.setAttribute("aria-sort",
      index !== this.sort[0] ? "none" : this.sort[1] > 0 ? "ascending" : "descending"));
    this.body.replaceChildren(...rows.slice(0, this.shown).map(row => make("tr", {}, ...this.columns.map((column, index) => {
      if (!index) return make("th", { scope: "row" }, make("bdi", { textContent: row[0] }));
      const value = row[index];
      const cell = make("td", { className: "number", textContent: value == null ? "–" : column.format ? Charts.formats[column.format](value) : value });
      if (column.bar && value) {
        const bar = make("i");
        bar.style.transform = `scaleX(${Math.min(1, value)})`;
        cell.classList.add("barred");
        cell.append(bar);
      }
      return cell;
    }))));
    const left = rows.length - this.shown;
    const words = `${rows.length.toLocaleString("en")} of ${this.rows.length.toLocaleString("en")} ${this.unit}` +
      (left > 0 ? `, ${this.shown} shown` : "");
    // Screen readers announce every change, so the text is set only if it differs.
    if (this.count.textContent !== words) this.count.textContent = words;
    this.more.hidden = left <= 0;
    this.more.textContent = `Show ${Math.min(4 * this.step, left)} more`;
  }
}

"use strict";
// The labelling queue and the corrections. They need API keys with a higher role than the rest of the page, so they are loaded only on request.

function labelPanels({ byId, request, path, count, describe, modelInfo }) {
  const cell = (text, number = false) => make("td", { className: number ? "number" : "" }, make("bdi", { textContent: text }));
  const send = (where, body) => request(path(where), { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), keepKey: true });
  const short = features => shorten(JSON.stringify(features), 80);
  async function attempt(status, action) {  // an error is shown beside the button, and the page stays usable
    try {
      byId(status).textContent = "";
      await action();
    } catch (error) {
      byId(status).textContent = error.message;
    }
  }

  // ---- the labelling queue

  function answerButtons(item, row) {
    const classes = modelInfo()?.classes || [];
    const answer = label => attempt("queue-says", async () => {
      await send("feedback", { id: item.id, label });
      row.remove();
      byId("queue-says").textContent = `Learned: ${shorten(label, 30)}.`;
    });
    if (classes.length && classes.length <= 6)
      return classes.map(label => make("button", { type: "button", className: "plain", textContent: shorten(label, 20), onclick: () => answer(label) }));
    const field = make("input", { ariaLabel: "Label", size: 12, autocomplete: "off", spellcheck: false });
    const given = () => classes.find(label => String(label) === field.value.trim()) ?? field.value.trim();
    return [field, make("button", { type: "button", className: "plain", textContent: "Learn", onclick: () => answer(given()) })];
  }
  async function showQueue() {
    if (!modelInfo()?.classes.length) await describe();  // the page was loaded before the model had classes
    const { queue } = await (await request(path("queue"), { keepKey: true })).json();
    byId("queue-table").hidden = !queue.length;
    byId("queue-rows").replaceChildren(...queue.map(item => {
      const row = make("tr", {}, make("th", { scope: "row" }, make("bdi", { textContent: shorten(item.task) })), cell(item.lead.toPrecision(2), true), cell(short(item.features)));
      row.append(make("td", { className: "tools" }, ...answerButtons(item, row)));
      return row;
    }));
  }

  // ---- corrections

  async function showCorrections() {
    const { corrections } = await (await request(path("corrections"), { keepKey: true })).json();
    byId("corrections-table").hidden = !corrections.length;
    byId("corrections-rows").replaceChildren(...corrections.slice(0, 50).map(c => make("tr", {},
      make("th", { scope: "row", textContent: new Date(1000 * c.at).toLocaleString("en-GB") }), cell(count(c.position), true), cell(count(c.row), true),
      cell(shorten(c.old, 30)), cell(c.withdrawn ? "withdrawn" : shorten(c.new, 30)), cell(c.who ? shorten(c.who, 24) : ""), cell(c.reason ? shorten(c.reason, 60) : ""))));
  }
  async function correct(withdraw) {
    if (!modelInfo()?.classes.length) await describe();
    const body = { position: Number(byId("correct-position").value), reason: byId("correct-reason").value };
    if (byId("correct-row").value !== "") body.row = Number(byId("correct-row").value);
    const text = byId("correct-label").value.trim();
    if (withdraw) body.withdraw = true;
    else body.label = (modelInfo()?.classes || []).find(label => String(label) === text) ?? text;
    const { replayed, seconds } = await (await send("corrections", body)).json();
    await showCorrections();
    byId("corrections-says").textContent = `Done: ${count(replayed)} examples were learned again in ${seconds.toFixed(2)} s.`;
  }

  byId("queue-show").addEventListener("click", () => attempt("queue-says", showQueue));
  byId("corrections-show").addEventListener("click", () => attempt("corrections-says", showCorrections));
  byId("correct").addEventListener("submit", event => {
    event.preventDefault();
    attempt("corrections-says", () => correct(event.submitter?.value === "withdraw"));
  });
  return {
    show(state) {
      byId("queue-note").textContent = state.waiting_labels ?
        `${count(state.waiting_labels)} ${state.waiting_labels === 1 ? "prediction waits" : "predictions wait"} for a label, the least confident first.` :
        "None. Send requests to predict with \"ask\", the share of predictions that you can label, such as 0.1.";
      byId("corrections-note").textContent = state.in_shards ? "A model in shards cannot be corrected." :
        `${count(state.n_corrections)} so far. A label can be corrected while its record is in the log. The table of recent mistakes shows the number of each record.`;
      byId("correct").hidden = byId("corrections-show").hidden = state.in_shards;
    },
    clear() {
      byId("queue-table").hidden = byId("corrections-table").hidden = true;
      byId("queue-says").textContent = byId("corrections-says").textContent = "";
    },
  };
}

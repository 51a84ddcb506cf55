"use strict";
// The live page: it draws the state of a model, which arrives once per second as server-sent events. The events are read
// through fetch, because EventSource cannot send an API key.
{
  const byId = id => document.getElementById(id);
  const { percent, count, bytes } = Charts.formats;
  const decimal = value => value.toFixed(3);
  const signed = value => value.toFixed(2).replace("-", "−");
  const orDash = (format, value) => value == null ? "–" : format(value);
  let latest = null, token = sessionStorage.getItem("key") || "", model = "", paused = false, stream = null, table = null, modelInfo = null, drawnRelations = "";

  // ---- requests to the service

  const labels = labelPanels({ byId, request, path, count, describe, modelInfo: () => modelInfo });
  function path(rest) { return model && model !== "default" ? `v1/models/${encodeURIComponent(model)}/${rest}` : `v1/${rest}`; }
  async function request(where, options = {}) {
    const headers = { ...(options.headers || {}), ...(token ? { Authorization: "Bearer " + token } : {}) };
    const answer = await fetch(where, { ...options, headers, cache: "no-store" });
    if ((answer.status === 401 || answer.status === 403) && !options.keepKey) askForKey(token ? "That key is not accepted." : "");
    if (!answer.ok) {
      const body = await answer.json().catch(() => null);
      throw Object.assign(new Error(body?.error?.message || `The service answered ${answer.status}.`), { status: answer.status });
    }
    return answer;
  }
  function askForKey(why) {
    token = "";
    sessionStorage.removeItem("key");
    byId("main").hidden = byId("forget").hidden = true;
    byId("key").hidden = false;
    byId("key-error").textContent = why;
    byId("token").focus();
  }
  function setStatus(text, bad = false) {
    if (byId("status").textContent !== text) byId("status").textContent = text;
    byId("status").classList.toggle("bad", bad);
  }

  // ---- the stream

  async function follow() {
    stream?.abort();
    const controller = stream = new AbortController();
    for (let wait = 1; !controller.signal.aborted;) {
      try {
        const answer = await request(path("events"), { signal: controller.signal });
        wait = 1;
        await read(answer.body.getReader(), controller);
        setStatus("The service has stopped, or the connection was lost. Trying again …", true);
      } catch (error) {
        if (controller.signal.aborted || error.status === 401 || error.status === 403) {
          if (!controller.signal.aborted) setStatus("An API key is required.");
          return;
        }
        setStatus(error.status ? error.message : "The service cannot be reached. Trying again …", true);
      }
      await new Promise(done => setTimeout(done, 1000 * wait));
      wait = Math.min(5, 2 * wait);
    }
  }
  async function read(reader, controller) {
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done || controller.signal.aborted) return;
      text += decoder.decode(value, { stream: true });
      const events = text.split("\n\n");
      text = events.pop();
      const data = events.at(-1)?.split("\n").filter(line => line.startsWith("data: ")).map(line => line.slice(6)).join("\n");
      if (data) show(JSON.parse(data));
    }
  }
  function stop() { stream?.abort(); stream = null; }

  // ---- drawing the state

  function show(state) {
    latest = state;
    byId("main").hidden = false;
    byId("key").hidden = true;
    byId("forget").hidden = !token;
    setStatus(`${state.learner} “${shorten(state.model)}” is live`);
    // The clock is outside of the live region, so that screen readers do not announce it every second.
    byId("clock").textContent = new Date(1000 * state.at).toLocaleTimeString("en-GB");
    byId("empty").hidden = state.begun;
    if (!state.begun) byId("empty").textContent =
      "The model has learned nothing yet. Send it labelled examples: POST v1/learn with {\"features\": [0.5, 1], \"label\": 1, \"task\": \"ann\"}.";
    const seconds = rates(state.traffic.seconds);
    cards(state, seconds.at(-1));
    charts(state, seconds);
    tasks(state);
    beliefs(state.beliefs);
    relations(state.relations);
    mistakes(state.mistakes);
    drift(state.alarms);
    candidate(state.candidate);
    labels.show(state);
  }

  function drift(alarms) {
    byId("drift").hidden = !alarms.length;
    const cell = text => make("td", { className: "number", textContent: text });
    byId("drift-rows").replaceChildren(...alarms.map(a => {
      const form = a.loss === "error" ? percent : decimal;
      return make("tr", {}, make("th", { scope: "row" }, make("bdi", { textContent: a.overall ? "all tasks together" : shorten(a.task) })),
        cell(count(a.position)), make("td", { textContent: a.loss }), cell(form(a.before)), cell(form(a.after)), cell(count(a.n)));
    }));
  }

  function rates(seconds) {  // from totals, one per second, to the increase per second between each total and the next
    return seconds.slice(1).map(([when, predicted, learned], i) => {
      const [before, p, l] = seconds[i], span = Math.max(when - before, .001);
      return { when, predicted: Math.max(0, predicted - p) / span, learned: Math.max(0, learned - l) / span };
    });
  }

  function cards(state, now) {
    const point = state.operating_point;
    const o = state.overall || {}, limit = state.budget_bytes, rare = state.rare;
    const errors = [
      ["Error", orDash(percent, o.error), `${orDash(count, o.mistakes)} mistakes`],
      ["F-measure", orDash(percent, o.f_measure), o.log_loss == null ? "" : `log loss ${o.log_loss.toFixed(3)}`]];
    const ranked = [
      ["AUC", orDash(decimal, o.auc), o.brier == null ? "0.5 is random" : `Brier score ${o.brier.toFixed(3)}`],
      ["Average precision", orDash(decimal, o.average_precision), o.precision_at_k == null ? "" : `precision in the top ${count(state.k)}: ${percent(o.precision_at_k)}`]];
    byId("rare").hidden = !rare;
    if (rare) byId("rare").textContent = `Only ${percent(rare.share)} of the labels are ${shorten(rare.label, 24)}, so the error says little: always predicting the other label has nearly the same error. Look at AUC and average precision instead.`;
    const rows = [
      ["Predictions/s", orDash(count, now?.predicted), `${count(state.traffic.predicted)} in all`],
      ["Labels/s", orDash(count, now?.learned), `${count(state.traffic.learned)} in all`],
      ...(rare ? [...ranked, ...errors] : [...errors, ...ranked]),
      ["Tasks", count(state.n_tasks), state.tasks_counted_together ? `${count(state.tasks_counted_together)} examples of other tasks` : ""],
      ...(state.capacity === 0 ? [] : [["Stored", count(state.stored), state.capacity == null ? "no limit" : `of ${count(state.capacity)} at most`]]),
      ["Memory", bytes(state.memory_bytes), limit == null ? "the whole model" : `of ${bytes(limit)}, ${percent(state.memory_bytes / limit)}`],
      ...(point ? [decisions(point)] : []),
      ...(state.n_alarms ? [["Drift alarms", count(state.n_alarms), state.alarms[0].overall ? "all tasks together" : shorten(state.alarms[0].task, 24)]] : []),
      ["Rejected", count(state.traffic.refused), "examples"],
    ];
    const names = rows.map(([name]) => name).join();
    if (byId("cards").dataset.names !== names) {
      byId("cards").dataset.names = names;
      byId("cards").replaceChildren(...rows.map(([name]) => make("div", { className: "card" }, make("dt", { textContent: name }), make("dd", {}, make("span"), make("small")))));
    }
    rows.forEach(([, value, note], i) => {
      const [main, small] = byId("cards").children[i].lastChild.children;
      main.textContent = value;
      small.textContent = note;
    });
  }

  function decisions(point) {  // the card of an operating point
    const asked = point.expected_asked ? `, asks about ${percent(point.expected_asked)}` : "";
    const from = point.high == null ? "" : `decides ${shorten(point.labels[1], 16)} from ${point.high.toPrecision(2)} on`;
    return point.costs ? ["Cost per example", orDash(decimal, point.expected_cost), from + asked] :
      ["Wrong decisions", orDash(percent, point.expected_cost), (from + asked).replace(/^, /, "")];
  }

  function charts(state, seconds) {
    const put = (name, chart) => Charts.update(document.querySelector(`[data-chart=${name}]`), chart);
    put("traffic", { time: true, sync: "clock", xLabel: "time", format: "count", x: seconds.map(s => s.when), series: [
      { label: "predictions/s", values: seconds.map(s => s.predicted) }, { label: "labels/s", values: seconds.map(s => s.learned) }] });
    const points = state.curve, x = points.map(p => p.position), over = { xLabel: "labels", x };
    for (const [name, metric, format] of [["error", "error", "percent"], ["f", "f_measure", "percent"], ["auc", "auc", "number"], ["precision", "average_precision", "number"]])
      put(name, { ...over, format, ...(name === "auc" ? { mark: { label: "random", value: .5 }, range: [0, 1] } : {}), series: [
        { label: "so far", values: points.map(p => p.so_far[metric]) },
        { label: "in each window", values: points.map(p => p.window[metric]), thin: true }] });
    const limit = state.budget_bytes;
    put("memory", { ...over, format: "bytes", series: [{ label: "memory", values: points.map(p => p.memory_bytes) }],
      ...(limit ? { mark: { label: "budget", value: limit } } : {}) });
    byId("memory-says").textContent = limit ? `${bytes(state.memory_bytes)} of ${bytes(limit)}.` :
      state.capacity === 0 ? `${bytes(state.memory_bytes)}.` :
        `${bytes(state.memory_bytes)}; ${count(state.stored)} examples stored` + (state.capacity == null ? "." : ` of ${count(state.capacity)} at most.`);
    shares(state, over, put);
    fillTable(points);
    const weights = new Map();
    points.forEach((p, i) => (p.beliefs || []).forEach(b => {
      const name = b.words;
      if (!weights.has(name)) weights.set(name, points.map(() => 0));
      weights.get(name)[i] += b.weight;
    }));
    const total = ([, values]) => values.reduce((sum, value) => sum + value, 0);
    const heaviest = [...weights].sort((a, b) => total(b) - total(a)).slice(0, 8);  // there are eight colours
    if (weights.size) put("beliefs", { ...over, format: "percent", stacked: true,
      series: heaviest.map(([label, values]) => ({ label, values })) });
  }

  function candidate(shown) {  // metrics of both models on the same labels, since the candidate or the service started
    byId("candidate").hidden = !shown;
    if (!shown) return;
    const name = shorten(shown.version, 24), put = (chart, of) => Charts.update(document.querySelector(`[data-chart=${chart}]`), of);
    byId("candidate-says").textContent = `${shown.learner} “${name}” learns the same labels as the model in use. ` +
      (shown.share ? `It answers the predictions of ${percent(shown.share)} of the tasks.` : "It answers no predictions.") +
      (shown.refused ? ` It refused ${count(shown.refused)} records: ${shown.reason}` : "");
    const points = shown.current.curve, its = new Map(shown.candidate.curve.map(p => [p.position, p]));
    for (const [chart, metric, format] of [["candidate-error", "error", "percent"], ["candidate-auc", "auc", "number"]])
      put(chart, { xLabel: "labels", x: points.map(p => p.position), format, series: [
        { label: "in use", values: points.map(p => p.so_far[metric]) },
        { label: name, values: points.map(p => its.get(p.position)?.so_far[metric] ?? null) }] });
    const cell = text => make("td", { className: "number", textContent: text });
    byId("candidate-rows").replaceChildren(...[["in use", shown.current.overall], [name, shown.candidate.overall]].map(([who, o]) => make("tr", {},
      make("th", { scope: "row" }, make("bdi", { textContent: who })), cell(orDash(count, o?.n)), cell(orDash(percent, o?.error)), cell(orDash(percent, o?.f_measure)), cell(orDash(decimal, o?.auc)), cell(orDash(decimal, o?.log_loss)))));
  }

  function fillTable(points) {  // a table for readers who cannot see the charts; filled only while it is open
    if (!byId("numbers").open) return;
    const step = Math.max(1, Math.ceil(points.length / 20)), last = points.length - 1;
    const cell = text => make("td", { className: "number", textContent: text });
    byId("numbers-rows").replaceChildren(...points.filter((_, i) => (last - i) % step === 0).map(p => make("tr", {},
      make("th", { scope: "row", textContent: count(p.position) }), cell(orDash(percent, p.window.error)), cell(orDash(percent, p.so_far.error)),
      cell(orDash(percent, p.window.f_measure)), cell(orDash(percent, p.so_far.f_measure)), cell(orDash(decimal, p.window.auc)), cell(orDash(decimal, p.so_far.auc)), cell(orDash(count, p.stored)), cell(orDash(bytes, p.memory_bytes)))));
  }

  function shares(state, over, put) {
    byId("budget").hidden = state.capacity === 0;  // a model that stores no examples
    if (state.capacity === 0) return;
    const points = state.curve, sums = new Map();
    for (const p of points) for (const [task, part] of Object.entries(p.budget_share)) sums.set(task, (sums.get(task) || 0) + part);
    const top = [...sums].sort((a, b) => b[1] - a[1]).slice(0, 7).map(([task]) => task).sort();
    const series = top.map(task => ({ label: shorten(task, 18), values: points.map(p => p.budget_share[task] || 0) }));
    const rest = points.map((_, i) => Math.max(0, 1 - series.reduce((sum, s) => sum + s.values[i], 0)));
    put("share", { ...over, format: "percent", stacked: true, series: [...series, { label: "all others", values: rest }] });
    const [most] = state.share;
    byId("share-says").textContent = most ? `${shorten(most[0])} has the largest share now, ${percent(most[1])}.` : "Nothing is stored.";
  }

  function tasks(state) {
    const share = new Map(state.share), stores = state.capacity !== 0;
    const rows = state.tasks.map(t => [shorten(t.task), t.error, t.n, t.mistakes, t.f_measure, t.auc, ...(stores ? [share.get(t.task) ?? null] : [])]);
    byId("tasks-note").textContent = state.n_tasks > rows.length ? `The ${count(rows.length)} tasks with the most mistakes, of ${count(state.n_tasks)}.` : "";
    if (table) return table.update(rows);
    table = new DataTable(byId("tasks"), { rows, sort: [3, -1], step: 15, columns: [
      { label: "Task" }, { label: "Error", format: "percent", bar: true }, { label: "Examples", format: "count" },
      { label: "Mistakes", format: "count" }, { label: "F-measure", format: "percent" }, { label: "AUC", format: "number" }, ...(stores ? [{ label: "Share of stored", format: "percent" }] : [])] });
  }

  function beliefs(list) {
    byId("beliefs").hidden = !list.length;
    if (!list.length) return;
    // The beliefs of a feature table assume nothing about tasks. If the graph fixes the relations of the tasks, no belief assumes anything about them.
    const aboutTasks = list.filter(b => /\btasks\b/.test(b.words)), weight = some => some.reduce((sum, b) => sum + b.weight, 0);
    const differ = weight(aboutTasks.filter(b => b.apart)), kinds = weight(aboutTasks.filter(b => b.learned)), alike = weight(aboutTasks) - differ - kinds;
    byId("beliefs-says").textContent = "The model mixes several models with different assumptions (beliefs), weighted by how well each predicts. " + (
      weight(aboutTasks) < 0.5 ? "" : kinds >= Math.max(differ, alike) ? `The largest part of the weight says that there are kinds of tasks (${percent(kinds)}).` :
        alike >= differ ? `The largest part of the weight says that the tasks are alike (${percent(alike)}).` :
          `The largest part of the weight says that the tasks differ (${percent(differ)}).`);
    byId("beliefs-rows").replaceChildren(...[...list].sort((a, b) => b.weight - a.weight).map(b => make("tr", {},
      make("th", { scope: "row", textContent: b.words }), make("td", { className: "number", textContent: percent(b.weight) }))));
  }

  function relations(shown) {  // how related the tasks are; drawn again only if the values have changed
    const text = JSON.stringify(shown);
    byId("relations").hidden = !shown;
    if (!shown || text === drawnRelations) return;
    drawnRelations = text;
    const names = shown.tasks.map(task => shorten(task, 16)), shadesOnly = names.length > 12;
    byId("relations-table").className = shadesOnly ? "heat narrow" : "heat";
    byId("relations-rows").replaceChildren(...shown.values.map((row, i) => make("tr", {},
      make("th", { scope: "row" }, make("bdi", { textContent: names[i] })), ...row.map((value, j) => make("td", {
        className: shade(value), title: `${names[i]} and ${names[j]}: ${value.toFixed(2)}`, textContent: shadesOnly ? "" : value.toFixed(1).replace("-0.0", "0.0").replace("-", "−") })))));
  }

  function mistakes(list) {
    byId("no-mistakes").hidden = !!list.length;
    byId("mistakes-table").hidden = !list.length;
    const cell = value => make("td", {}, make("bdi", { textContent: shorten(value, 40) }));
    byId("mistakes").replaceChildren(...list.slice(0, 20).map(m => make("tr", {},
      make("th", { scope: "row" }, make("bdi", { textContent: shorten(m.task) })), cell(m.label), cell(m.predicted),
      make("td", { className: "number", textContent: signed(Array.isArray(m.margin) ? Math.max(...m.margin) : m.margin) }),
      make("td", { className: "number", textContent: count(m.position) }))));
  }

  // ---- the form for a prediction

  function features(text) {  // from JSON such as [1, 2] or {"a": 1}, or from numbers separated by commas, semicolons or blanks
    const given = text.trim();
    if (/^[[{]/.test(given)) return JSON.parse(given);
    const numbers = given.split(/[\s,;]+/).map(Number);
    if (numbers.some(Number.isNaN)) throw new Error("Features must be numbers, a JSON list or a JSON object; got " + shorten(given, 40));
    return numbers;
  }
  function task(text) {  // a number if the text is an integer of at most 15 digits; text in double quotes is always a string
    return /^-?\d{1,15}$/.test(text) ? Number(text) : /^".*"$/.test(text) ? text.slice(1, -1) : text;
  }
  async function describe() {
    modelInfo = await (await request(path("model"))).json();
    const names = modelInfo.columns?.filter(c => c.role === "feature").map(c => c.column);
    byId("try-note").textContent = names ? `A JSON object with the columns ${names.slice(0, 20).map(n => shorten(n, 24)).join(", ")}${names.length > 20 ? ", …" : ""}.` :
      modelInfo.n_features ? `${count(modelInfo.n_features)} numbers; or an object of features by name, if the model was trained with names.` :
        "Numbers, a JSON list or a JSON object, like the examples that the model learned.";
  }
  async function predict(event) {
    event.preventDefault();
    const body = {};
    try {
      body.features = features(byId("try-features").value);
      if (byId("try-task").value !== "") body.task = task(byId("try-task").value);
      body.explain = true;
      const answer = await request(path("predict"), { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
      showPrediction(await answer.json());
    } catch (error) {
      byId("answer").replaceChildren(make("p", { className: "warning", textContent: error.message }));
    }
  }
  function showPrediction(answer) {
    const parts = [make("p", {}, "Predicted: ", make("strong", {}, make("bdi", { textContent: shorten(answer.label) })))];
    if (answer.abstain) parts.push(make("p", { textContent: "Decision: ask a person" }));
    else if (answer.decision != null) parts.push(make("p", {}, "Decision: ", make("strong", {}, make("bdi", { textContent: shorten(answer.decision) }))));
    if (answer.probabilities) {
      const rows = Object.entries(answer.probabilities).sort((a, b) => b[1] - a[1]).slice(0, 10);
      parts.push(make("div", { className: "scroll" }, make("table", {}, make("tbody", {}, ...rows.map(([label, p]) => make("tr", {},
        make("th", { scope: "row" }, make("bdi", { textContent: shorten(label) })), make("td", { className: "number", textContent: percent(p) }),
        make("td", {}, make("progress", { max: 1, value: p, ariaLabel: percent(p) }))))))));
    } else parts.push(make("p", { className: "note", textContent: "Margin " + [answer.margin].flat().map(m => m.toPrecision(3)).join(", ") }));
    if (answer.reasons) parts.push(...reasons(answer.reasons));
    byId("answer").replaceChildren(...parts);
  }
  function reasons(given) {  // what each feature adds to the margin, as bars left and right of zero
    const rows = given.terms.slice(0, 15), others = given.terms.slice(15).reduce((sum, t) => sum + t.total, given.rest);
    if (Math.abs(others) >= 5e-4) rows.push({ name: "all others", total: others });
    if (Math.abs(given.remainder) >= 5e-4) rows.push({ name: "mixing of the models", total: given.remainder });
    const most = Math.max(1e-9, ...rows.map(t => Math.abs(t.total)));
    const bar = value => make("progress", { max: most, value: Math.abs(value), ariaLabel: signed(value) });
    const number = value => make("td", { className: "number", textContent: value ? signed(value) : "" });
    const head = (text, number = true) => make("th", { scope: "col", className: number ? "number" : "", textContent: text });
    const body = rows.map(t => make("tr", {}, make("th", { scope: "row" }, make("bdi", { textContent: shorten(t.name, 40) })), number(t.total),
      make("td", { className: "against" }, ...(t.total < 0 ? [bar(t.total)] : [])), make("td", {}, ...(t.total > 0 ? [bar(t.total)] : [])),
      number(t.shared), number(t.own), number(t.related)));
    const title = make("h3", {}, "Reasons for ", make("bdi", { textContent: shorten(given.label, 30) }));
    const note = make("p", { className: "note", textContent: `What each feature adds to the margin of ${signed(given.margin)}. Positive numbers speak for this label, negative numbers against it. Shared: learned from all tasks; own: from this task; related: from similar tasks.` });
    const found = [title, note, make("div", { className: "scroll", tabIndex: 0, role: "group", ariaLabel: "Reasons" }, make("table", { className: "reasons" },
      make("thead", {}, make("tr", {}, head("Feature", false), head("Adds"), head("Against"), head("For", false), head("Shared"), head("Own"), head("Related"))), make("tbody", {}, ...body)))];
    if (given.nearest.length) found.push(make("h3", { textContent: "Most similar stored examples" }), make("div", { className: "scroll" }, make("table", {},
      make("thead", {}, make("tr", {}, head("Task", false), head("Example"), head("Similarity"), head("Adds"))),
      make("tbody", {}, ...given.nearest.map(n => make("tr", {}, make("th", { scope: "row" }, make("bdi", { textContent: shorten(n.task) })),
        make("td", { className: "number", textContent: count(n.arrival + 1) }), number(n.similarity), number(n.contribution)))))));
    return found;
  }
  async function lookUp(event) {
    event.preventDefault();
    try {
      const found = await (await request(path("tasks/" + encodeURIComponent(byId("wanted").value)))).json();
      const f = found.figures;
      byId("found").textContent = `${shorten(found.task)}: ${f ? `error ${orDash(percent, f.error)} of ${count(f.n)}, F-measure ${orDash(percent, f.f_measure)}, AUC ${orDash(decimal, f.auc)}` : "no statistics"}; ${count(found.stored)} stored, ${percent(found.share)} of all stored examples.`;
    } catch (error) {
      byId("found").textContent = error.message;
    }
  }

  // ---- start

  async function start() {
    try {
      const { models } = await (await request("v1/models")).json();
      if (!models.includes(model)) model = models.includes("default") ? "default" : models[0];
      byId("model").replaceChildren(...models.map(name => make("option", { value: name, textContent: shorten(name) })));
      byId("model").value = model;
      byId("choice").hidden = models.length < 2;
      describe().catch(() => {});
    } catch (error) {
      if (error.status === 401 || error.status === 403) return setStatus("An API key is required.");
      setStatus("The service cannot be reached. Trying again …", true);
      return setTimeout(start, 2000);
    }
    follow();
  }
  byId("key").addEventListener("submit", event => {
    event.preventDefault();
    token = byId("token").value.trim();
    sessionStorage.setItem("key", token);
    byId("token").value = "";
    byId("key").hidden = true;
    start();
  });
  byId("forget").addEventListener("click", () => { stop(); askForKey(""); setStatus("The key is forgotten."); });
  byId("model").addEventListener("change", () => { model = byId("model").value; labels.clear(); byId("answer").replaceChildren(); describe().catch(() => {}); follow(); });
  byId("pause").addEventListener("click", () => {
    paused = !paused;
    byId("pause").setAttribute("aria-pressed", paused);
    byId("pause").textContent = paused ? "Continue" : "Pause";
    if (!paused) return follow();
    stop();
    setStatus("Paused.");
  });
  document.addEventListener("visibilitychange", () => { if (paused || !byId("key").hidden) return; document.hidden ? stop() : follow(); });
  byId("try").addEventListener("submit", predict);
  byId("numbers").addEventListener("toggle", () => { if (latest) fillTable(latest.curve); });
  byId("look-up").addEventListener("submit", lookUp);
  start();
}

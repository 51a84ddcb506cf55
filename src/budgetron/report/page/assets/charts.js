"use strict";
// Line charts drawn by uPlot from plain descriptions. The report calls Charts.draw, and the live page of the service calls
// Charts.update every second.
//   {x: [...], xLabel, format: "percent" | "count" | "bytes" | "number", xFormat: the same, "count" by default,
//    time: false (x in seconds since 1970), sync: "time" (charts with the same name share their cursor),
//    stacked: false, small: false (no axes and no legend), height: 230, range: [low, high] of y,
//    series: [{label, values: [...], thin: false, points: false}], mark: {label, value} for a horizontal line}
// Lines differ by dash as well as by colour, for readers who cannot tell the colours apart. Colours are those of the
// style sheet, so they follow light and dark mode.
const Charts = (() => {
  const drawn = new Map();  // element → {plot, chart}
  const formats = {
    percent: v => (100 * v).toFixed(1) + " %",
    count: v => Math.round(v).toLocaleString("en"),
    number: v => v.toPrecision(3),
    bytes: v => v < 1024 ? v + " B" : v < 1048576 ? (v / 1024).toFixed(0) + " KiB" : (v / 1048576).toFixed(1) + " MiB",
  };
  const tickFormats = {  // shorter, for the ticks of the axes
    ...formats,
    percent: v => +(100 * v).toFixed(2) + " %",
    number: v => String(+v.toPrecision(3)),
    count: v => v >= 1e6 ? +(v / 1e6).toFixed(2) + "M" : v >= 1e4 ? +(v / 1e3).toFixed(1) + "k" : formats.count(v),
  };
  const clock = seconds => new Date(1000 * seconds).toLocaleTimeString("en-GB");
  // Ticks of bytes are powers of two, so that they read 64 KiB and not 65.5 KiB.
  const powersOfTwo = Array.from({ length: 45 }, (_, power) => 2 ** power);
  const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3]];

  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

  function columns(chart) {  // the data for uPlot
    if (!chart.stacked) return [chart.x, ...chart.series.map(s => s.values)];
    // uPlot cannot stack areas; it fills each line down to the axis. So the cumulative sums are drawn, the largest first.
    let sum = chart.x.map(() => 0);
    const sums = chart.series.map(s => sum = sum.map((v, i) => v + (s.values[i] || 0)));
    return [chart.x, ...sums.reverse()];
  }

  function lines(chart) {  // the options of uPlot for each line
    const format = formats[chart.format] || formats.number;
    const shown = v => v == null ? "–" : format(v);
    const list = chart.series.map((series, index) => ({ series, index }));
    if (chart.stacked) list.reverse();
    return list.map(({ series, index }) => ({
      label: series.label,
      stroke: chart.stacked ? colour("--ground") : colour("--c" + index % 8),
      fill: chart.stacked ? colour("--c" + index % 8) : undefined,
      width: chart.stacked ? 1 : series.thin ? 1.2 : 2.2,
      dash: chart.stacked ? undefined : dashes[index % dashes.length],
      points: { show: u => series.points || u.data[0].length === 1, size: 7 },
      spanGaps: true,
      value: (_, v, __, i) => shown(series.values[i ?? series.values.length - 1]),  // the last value until the pointer is over the chart
    }));
  }

  function options(chart, width) {  // the options of uPlot for the whole chart
    const soft = colour("--soft"), line = colour("--line");
    const font = "12px system-ui, sans-serif";
    const format = tickFormats[chart.format] || tickFormats.number;
    const axis = { stroke: soft, font, labelFont: font, labelSize: 18, grid: { stroke: line, width: 1 }, ticks: { show: false } };
    if (chart.small) return {
      width, height: 48, legend: { show: false }, cursor: { show: false }, axes: [{ show: false }, { show: false }],
      padding: [3, 3, 3, 3], scales: { x: { time: false, range: [0, 1] }, y: { range: chart.range || [0, 1] } },
      series: [{}, ...lines(chart)],
      hooks: { draw: chart.mark ? [u => drawMark(u, chart.mark)] : [] },
    };
    const formatX = chart.time ? clock : tickFormats[chart.xFormat || "count"];
    return {
      width, height: chart.height || 230,
      cursor: { sync: { key: chart.sync || "time" }, points: { size: 7 }, drag: { x: true, y: false } },
      legend: { markers: {
        width: chart.stacked ? 0 : 3,
        stroke: (u, i) => u.series[i].stroke(u, i),
        fill: (u, i) => chart.stacked ? u.series[i].fill(u, i) : null,
        dash: (u, i) => u.series[i].dash && u.series[i].dash.length ? (u.series[i].dash[0] < 4 ? "dotted" : "dashed") : "solid",
      } },
      scales: { x: { time: !!chart.time, range: chart.xFormat === "percent" ? [0, 1] : undefined }, y: { range: (_, low, high) => range(chart, low, high) } },
      axes: [
        { ...axis, label: chart.xLabel, size: 34, space: chart.time ? 80 : 50,
          values: (_, ticks) => ticks.map(formatX) },
        { ...axis, size: 62, values: (_, ticks) => ticks.map(format), incrs: chart.format === "bytes" ? powersOfTwo : undefined },
      ],
      series: [{ label: chart.xLabel, value: (u, v) => {
        const x = v ?? u.data[0].at(-1);
        return x == null ? "–" : chart.time ? clock(x) : formats[chart.xFormat || "count"](x);
      } }, ...lines(chart)],
      hooks: { draw: chart.mark ? [u => drawMark(u, chart.mark)] : [] },
    };
  }

  function range(chart, low, high) {
    if (chart.range) return chart.range;
    if (chart.mark) high = Math.max(high ?? 0, chart.mark.value);
    if (chart.stacked) return [0, chart.format === "percent" ? 1 : high || 1];
    if (chart.format === "percent") return [0, Math.min(1, Math.max((high ?? 0) * 1.1, .02))];
    return [0, (high || 1) * 1.08];
  }

  function drawMark(u, mark) {
    const y = u.valToPos(mark.value, "y", true), { left, width } = u.bbox, ctx = u.ctx;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("--bad");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.beginPath(); ctx.moveTo(left, y); ctx.lineTo(left + width, y); ctx.stroke();
    if (!mark.label) return ctx.restore();
    ctx.font = 12 * devicePixelRatio + "px system-ui, sans-serif";
    ctx.textAlign = "right"; ctx.textBaseline = "middle";
    const right = left + width - 6 * devicePixelRatio, labelWidth = ctx.measureText(mark.label).width, line = 16 * devicePixelRatio;
    const middle = y - line - u.bbox.top > 0 ? y - line * .65 : y + line * .65;
    ctx.fillStyle = colour("--ground"); ctx.globalAlpha = .75;  // so that the label is readable over the lines behind it
    ctx.fillRect(right - labelWidth - 4, middle - line / 2, labelWidth + 8, line);
    ctx.fillStyle = colour("--bad"); ctx.globalAlpha = 1;
    ctx.fillText(mark.label, right, middle);
    ctx.restore();
  }

  function widthOf(element, chart) { return Math.max(element.clientWidth, chart.small ? 80 : 200); }

  function draw(element, chart) {
    const old = drawn.get(element);
    if (old) old.plot.destroy();
    element.classList.toggle("stacked", !!chart.stacked);
    const plot = new uPlot(options(chart, widthOf(element, chart)), columns(chart), element);
    element.querySelector(".u-legend")?.setAttribute("role", "presentation");
    for (const name of element.querySelectorAll(".u-legend .u-series:not(:first-child) th")) {
      name.tabIndex = 0; name.setAttribute("role", "button"); name.title = "Show or hide";
      name.addEventListener("keydown", e => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); name.click(); } });
    }
    drawn.set(element, { plot, chart });
    element.dataset.drawn = chart.x.length;
    if (!old) new ResizeObserver(() => drawn.get(element).plot.setSize({ width: widthOf(element, chart), height: chart.small ? 48 : chart.height || 230 })).observe(element);
  }

  function update(element, chart) {  // the same lines with new values; redrawn completely only if the lines themselves change
    const old = drawn.get(element);
    const same = old && old.chart.series.length === chart.series.length &&
      old.chart.series.every((s, i) => s.label === chart.series[i].label);
    if (!same) return draw(element, chart);
    old.chart.x = chart.x;
    old.chart.series.forEach((s, i) => s.values = chart.series[i].values);
    if (old.chart.mark && chart.mark) Object.assign(old.chart.mark, chart.mark);
    old.plot.setData(columns(chart));
    element.dataset.drawn = chart.x.length;
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const [element, { chart }] of [...drawn]) draw(element, chart);
  });
  return { draw, update, formats };
})();

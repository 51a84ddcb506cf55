"use strict";
{
  const { charts, tasks } = JSON.parse(document.getElementById("data").textContent);
  for (const place of document.querySelectorAll("[data-chart]")) Charts.draw(place, charts[place.dataset.chart]);
  new DataTable(document.getElementById("tasks-table"), tasks);
}

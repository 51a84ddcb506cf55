"use strict";
// Draw the charts and the table of tasks of a report, from the JSON in the element #data.
{
  const { charts, tasks } = JSON.parse(document.getElementById("data").textContent);
  for (const element of document.querySelectorAll("[data-chart]")) Charts.draw(element, charts[element.dataset.chart]);
  new DataTable(document.getElementById("tasks-table"), tasks);
}

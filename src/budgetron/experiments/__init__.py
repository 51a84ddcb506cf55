"""Reproduce published tables and compare them with the printed values. `budgetron reproduce` calls this package.

The modules here are for the paper's Table 1, except `page` and `schedule`, which serve all tables. The package `kernel`
has Tables 5 and 7 of Lu et al. (2016), the package `relations` compares learners on streams of tasks with known
relations. For Table 1:

printed    the values in the paper
blocks     the data sets with their kernels
algorithms the rows of the table
runs       run one algorithm on one random order of one block, and write one JSON file
schedule   perform all runs on several processes
table      compute mean and standard error over the orders, from the JSON files only
findings   check our expectations about the table
render     show the table in the terminal, as Markdown and as HTML
plotting   draw F against the budget

Our numbers in rendered files come from the JSON files and are never edited by hand.
"""

from budgetron.experiments.findings import Finding, findings
from budgetron.experiments.runs import Run, all_done, is_done, perform, planned
from budgetron.experiments.table import Table, table_of

__all__ = ["Finding", "Run", "Table", "all_done", "findings", "is_done", "perform", "planned", "table_of"]

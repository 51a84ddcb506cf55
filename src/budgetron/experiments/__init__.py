"""The paper's experiment: run it, and see its Table 1 beside the printed one.

runs       one algorithm on one order of one block: one JSON
schedule   all of them, on several processes
table      mean and standard error over the orders, from the JSONs alone
findings   what the table was expected to show, and whether it does
render     the table in the terminal, as Markdown and as HTML; figure: F against budget
"""

from budgetron.experiments.findings import Finding, findings
from budgetron.experiments.runs import Run, all_done, is_done, perform, planned
from budgetron.experiments.table import Table, table_of

__all__ = ["Finding", "Run", "Table", "all_done", "findings", "is_done", "perform", "planned", "table_of"]

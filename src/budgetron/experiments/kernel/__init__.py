"""Tables 5 and 7 of Lu et al., *Large Scale Online Kernel Learning* (JMLR 2016), rerun beside the published values.

sets       the data: where they come from, and their digests
rows       the learners of the tables, with the settings of the tables, and ours
printed    the printed values, and why some of ours differ
runs       run one learner on one order of one set, and write one JSON file
table      means over the orders, and the page
"""

"""Rerun Tables 5 and 7 of Lu et al., *Large Scale Online Kernel Learning* (JMLR 2016), the "study".

sets       the data sets, their sources and their digests
rows       the learners of the tables with the settings of the study, and further learners
printed    the printed values, and why some of our values differ
runs       run one learner on one order of one data set, and write one JSON file
table      compute means over the orders, and render them as a page
"""

"""Streams of tasks with known relations: the multitask relatives, the paper's learners and Budgetron side by side.

streams    the streams, and how many draws of each
rows       the learners, and the values that were printed
runs       run all learners on one draw of one stream, and write one JSON file
table      means over the draws, as a page
plotting   the learned relations beside the true ones, and errors over time
"""

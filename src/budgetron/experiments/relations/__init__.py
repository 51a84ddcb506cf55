"""Compare multitask learners on streams of tasks with known relations.

streams    the streams
rows       the learners, and the printed values
runs       run all learners on one draw of one stream, and write one JSON file
table      compute means over the draws, and render them as a page
plotting   plot the learned relations beside the true ones, and errors over time
"""

"""Metrics: errors, confusion matrix, calibration and ranking (AUC).

They are computed from counts, whose memory does not grow with the length of the stream.
"""

"""Metrics from counts of bounded size: errors, confusion matrix, calibration and ranking (AUC)."""

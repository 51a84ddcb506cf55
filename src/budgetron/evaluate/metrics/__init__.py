"""The figures of a validation, each from counts of bounded size: errors, confusions, calibration and rankings."""

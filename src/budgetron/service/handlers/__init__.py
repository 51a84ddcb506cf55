"""The functions that answer requests: predict, learn, feedback (delayed labels), NDJSON, events, administration."""

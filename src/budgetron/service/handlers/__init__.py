"""HTTP handlers of a model's endpoints: predict, learn, feedback (delayed labels), NDJSON, events, administration."""

"""Replicas: models of one component of the task graph, split by groups of tasks, that exchange what tasks share."""

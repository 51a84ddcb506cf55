"""Replicas: models of one component of the task graph, split by groups of tasks, which exchange their shared parts."""

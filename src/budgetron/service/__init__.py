"""A service that keeps learning: `budgetron serve`. It acknowledges a label only after the label is on disk.

    settings       addresses and limits
    run            the server: uvicorn's configuration, start and stop
    lifecycle      the models of the process, and whether they can learn
    model/         one named model: its host, writer thread, pending predictions and versions
    replication    the copy of a model, and the standby that follows it
    scaling        how many workers a model in shards has
    audit, logs    the actions of administrators; the log of the service
    consuming/     streams of message brokers
    http/          connections, API keys, the Starlette application, requests and responses
    handlers/      the functions that answer requests
    monitoring/    statistics for the live page and for Prometheus
    live/          the live page
"""

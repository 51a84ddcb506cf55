"""A service that keeps learning: `budgetron serve`. It acknowledges a label only after the label is on disk.

    settings       addresses and limits
    run            the server: uvicorn's configuration, start and stop
    lifecycle      the models of the process, and whether they can learn
    served_model   one named model: its host, writer, pending predictions and statistics
    writer         the thread that commits and learns
    http/          connections, API keys, the Starlette application, requests and responses
    handlers/      what each path does
    monitoring/    statistics for the live page and for Prometheus
    live/          the live page
"""

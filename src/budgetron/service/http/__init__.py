"""HTTP: connections, API keys, requests and responses, and the application that puts them together.

    connections   limits on the number of connections and on the time for headers
    app           the Starlette application: routing, authorization, errors, metrics
    call          one authorized request to one model, as a handler sees it
    operations    the list of paths, for routing and for the OpenAPI document
    wire          the JSON of requests and responses that predict and learn
    admin_wire    the JSON of requests and responses that administer a model
    problems      the HTTP status of each exception
"""

"""HTTP: connections, API keys, requests and responses, and the application that puts them together.

    connections   how many connections, and how long headers may take
    app           the Starlette application: routing, authorization, errors, metrics
    call          one authorized request to one model, as a handler sees it
    operations    the list of paths, from which routing and the OpenAPI document are made
    wire          the JSON of requests and responses that predict and learn
    admin_wire    the JSON of those that administer a model
    problems      which exception is which status
"""

"""HTTP: connections, API keys, requests and responses, and the application that puts them together.

    connections           limits on the number of connections and on the time for headers
    addresses, rates      the client's address, and limits on requests per API key and address
    app                   the Starlette application: routing, authorization, errors, metrics
    api_keys              the file of API keys and their roles
    authorization         which API key a request has, and whether it may do what it asks for
    call                  one authorized request to one model, as a handler sees it
    operations            the list of paths, for routing and for the OpenAPI document
    openapi, docs_page    the OpenAPI document, and the page that shows it
    wire                  the JSON of requests and responses that predict and learn
    admin_wire            the JSON of requests and responses that administer a model
    problems              the HTTP status of each exception
"""

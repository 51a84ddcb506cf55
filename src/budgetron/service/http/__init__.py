"""HTTP: connections, API keys, requests and responses, and the application that puts them together.

    connections           limits on the number of connections, and on the time until a body begins
    addresses, rates      the client's address, and limits on requests per API key and address
    app                   the Starlette application: routing, authorization, errors, metrics
    api_keys              the file of API keys and their roles
    authorization         which API key a request has, and whether the key allows the request
    call                  one authorized request, to a model or to the service, as a handler sees it
    operations            the list of paths, for routing and for the OpenAPI document
    openapi, docs_page    the OpenAPI document, and the page that shows it
    wire                  the JSON of requests that predict and learn, and of their responses
    admin_wire            the JSON of requests that administer models and the service, and of their responses
    problems              the HTTP status of each exception
"""

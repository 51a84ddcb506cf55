"""A service that keeps learning: `budgetron serve`. Everything over HTTP, nothing acknowledged that is not on disk.

    settings    addresses, limits, times
    keys        who may do what
    wire        what requests and answers look like; openapi makes the document of it
    exchange    one request and its answer
    routes      which path does what, and who may
    hosted      a named model: its host, its writer, its figures
    predicting, learning, feedback, bulk, admin      what the paths do
    watch, metrics, events                           what can be seen of it
    app, run    the ASGI application, and the server around it

There is no web framework here: a path is one look-up, a request one function. That is half the cost of a request.
"""

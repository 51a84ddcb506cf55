"""One served model: its host, writer thread, pending predictions and versions.

    served_model    puts the parts of a model together
    writer          the thread that commits and learns
    pending         predictions that clients may label later
    model_versions  saved versions of the model, one of which is in use
    candidate       a second model that learns the same examples, to be compared with the one in use
"""

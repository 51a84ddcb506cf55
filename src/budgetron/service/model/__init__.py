"""One served model: its host, writer thread, pending predictions and versions.

    served_model              puts the parts of a model together
    writer                    the thread that commits and learns
    pending                   predictions that wait for their label
    model_versions, candidate versions of the model, and a candidate to compare it with
"""

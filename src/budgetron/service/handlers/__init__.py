"""What each path of a model does: predict, learn, label later, stream lines, inspect and administrate."""

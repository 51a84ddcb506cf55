"""The life of a model: creating its engine from the first block, locking, resizing, saving and loading."""

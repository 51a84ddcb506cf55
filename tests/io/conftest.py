"""Skip the tests of this folder without pyarrow (the extra `parquet`). Most of them use `streaming`, which needs it."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("pyarrow") else ["test_*.py"]

"""Skip the tests of this folder without pyarrow (the extra `parquet`), which `streaming` imports for most of them."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("pyarrow") else ["test_*.py"]

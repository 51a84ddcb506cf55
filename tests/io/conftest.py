"""Without pyarrow, which is the extra `parquet`, the tests of files are not collected: most of them write Parquet."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("pyarrow") else ["test_*.py"]

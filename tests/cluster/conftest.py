"""Dask clusters for tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from dask_cluster import DaskCluster, InstalledElsewhere, dask_cluster


@pytest.fixture(scope="module")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    with dask_cluster(tmp_path_factory.mktemp("dask"), workers=2) as started:
        yield started


@pytest.fixture
def cluster(_shared: DaskCluster) -> DaskCluster:
    """A cluster of two workers, which a test may damage."""
    _shared.repair(workers=2)
    return _shared


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InstalledElsewhere]:
    """A worker with modules that this machine does not have, or has in another version."""
    folder = tmp_path_factory.mktemp("elsewhere")
    with dask_cluster(tmp_path_factory.mktemp("dask"), workers=0) as started:
        started.start_worker(PYTHONPATH=f"{folder}:{os.environ.get('PYTHONPATH', '')}")
        started.wait_for(1)
        yield InstalledElsewhere(started, folder)

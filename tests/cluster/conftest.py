"""Dask clusters for tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from dask_cluster import DaskCluster, dask_cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """A cluster of two workers, shared by the tests of a module."""
    with dask_cluster(tmp_path_factory.mktemp("dask"), workers=2) as started:
        yield started


@pytest.fixture
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """A cluster of two workers that a test may damage."""
    with dask_cluster(tmp_path_factory.mktemp("dask"), workers=2) as started:
        yield started


@pytest.fixture
def empty_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """A cluster without workers."""
    with dask_cluster(tmp_path_factory.mktemp("dask"), workers=0) as started:
        yield started

"""
A study on a local Dask cluster
===============================

The same numbers as on one machine, bit for bit, for any number of workers. For a real cluster, pass
the address of its scheduler instead.
"""

from distributed import Client, LocalCluster

import entice

study = entice.Study(
    arms=entice.Gaussian([0.9, 0.7, 0.5, 0.3]),
    policies=[entice.UCB(), entice.EpsilonGreedy(c=5)],
    drifts=[entice.LinearDrift(1.1)],
    horizon=5_000,
    replications=200,
    seed=7,
)
cluster = LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0")
with cluster, Client(cluster) as client:
    there = entice.run(study, cluster=client)
here = entice.run(study)
assert there.final.equals(here.final)
assert there.curves.equals(here.curves)
print(there)
there.plot("compensation")

"""Before several hosts train together: that their environments are the same, and that each reaches each.

cluster = cluster_of(hosts)                        # run/cluster.py: settings alone
looks = [look(machine, order, member, cluster)]    # one exec per host
cluster = settled(cluster, looks)                  # with the addresses that hosts gave
compare(looks)                                     # complaints: environments, clocks, published ports
notes(looks)                                       # what differs, and stands against nothing
reach(machines, looks, cluster)                    # one exec per host, from container to container
"""

from orchestrator.run.checks.compare import compare, notes
from orchestrator.run.checks.look import Look, look, network_env, settled
from orchestrator.run.checks.reach import Matrix, reach
from orchestrator.run.checks.telling import Pair

__all__ = ["Look", "Matrix", "Pair", "compare", "look", "network_env", "notes", "reach", "settled"]

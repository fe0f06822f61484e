"""OpenLineage: commits, live jobs, backfills and audits, sent to a receiver of the operator.

* `dataset_names`: names by the naming rules of OpenLineage; `facets`: the parts of events.
* `run_events`: from an event of the ledger to events of OpenLineage. These three are pure.
* `environment`: whether lineage is wanted, by the standard configuration of OpenLineage;
  `configuration`: a client with that configuration; `delivery`: one delivery.
* `loop`: the loop that reads the ledger, sends, and stores how far it is.

Start with `run_events`, then `loop`.
"""

"""The command `narthex prove`: compare the platform with its definitions, row by row.

The reference engine recomputes everything from the logs of the datasets that sources fill, and
compares the result with the logs of the other datasets, with indexes and with histories.
"""

from narthex_proving.deployed import Deployed, NothingServesError, deployed
from narthex_proving.findings import EvidenceFact, Proof, ProofDifference, Unproved
from narthex_proving.logs import Log
from narthex_proving.proof import ProofRequest, prove

__all__ = [
    "Deployed",
    "EvidenceFact",
    "Log",
    "NothingServesError",
    "Proof",
    "ProofDifference",
    "ProofRequest",
    "Unproved",
    "deployed",
    "prove",
]

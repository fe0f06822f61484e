"""Whether what the platform holds is what its definitions mean, row by row.

Everything is computed again by the reference engine, from the logs of the datasets that sources
fill, and compared with the logs of the others, with indexes and with histories.
"""

from narthex_reference.proving.deployed import Deployed, NothingServesError, deployed
from narthex_reference.proving.findings import EvidenceFact, Proof, ProofDifference, Unproved
from narthex_reference.proving.logs import Log
from narthex_reference.proving.proof import ProofRequest, prove

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

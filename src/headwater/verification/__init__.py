"""Proof that a pipeline's stream is its batch, behind `headwater verify`."""

from headwater.verification.problems import Problem
from headwater.verification.verifier import Verifier
from headwater.verification.verify import Verification, verify

__all__ = ["Problem", "Verification", "Verifier", "verify"]

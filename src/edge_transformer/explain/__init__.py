"""Why a model answered what it did: the triangles behind an answer, and how far to believe such an explanation."""

from .claims import Claim, Explanation
from .proof import explain, explain_stories

__all__ = ["Claim", "Explanation", "explain", "explain_stories"]

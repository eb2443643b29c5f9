"""Vectors that stand for many: quantisation of changes, and what counts as an ordinary state."""

from bobbin.cluster.codebook.global_book import EMPTY, GlobalCodebook, Quantized
from bobbin.cluster.codebook.hierarchy import Codes, Hierarchy
from bobbin.cluster.codebook.kmeans import centroids_of
from bobbin.cluster.codebook.local_book import LocalCodebook, Pruning
from bobbin.cluster.codebook.validation import CodebookValidator, PathReport

__all__ = [
    "EMPTY",
    "CodebookValidator",
    "Codes",
    "GlobalCodebook",
    "Hierarchy",
    "LocalCodebook",
    "PathReport",
    "Pruning",
    "Quantized",
    "centroids_of",
]

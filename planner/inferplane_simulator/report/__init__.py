"""Outcomes for people: rows of a table, and one page with plots."""

from inferplane_simulator.report.page import page
from inferplane_simulator.report.summary import HEADS, Summary, rows, summarise

__all__ = ["HEADS", "Summary", "page", "rows", "summarise"]

"""What happened around a moment, and what most likely caused it.

Problem: after a bad hour the facts lie in a dozen places, and each of them shows consequences as loudly as causes.
Idea: everything that happens is one kind of value (`happening`), whoever saw it; `breach` finds when an objective was
missed, `causes` has one rule for each thing that goes wrong, `report` puts both in order.
Trade-off: rules know what they were written for; what none of them explains is called unexplained.
Invariant: pure: the same happenings give the same report.
"""

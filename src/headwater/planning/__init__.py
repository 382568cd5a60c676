"""What would run, with which guarantee, and why not otherwise."""

from headwater.planning.plan import Plan, TablePlan, make_plan

__all__ = ["Plan", "TablePlan", "make_plan"]

"""What would run, with which guarantee, and why not otherwise."""

from headwater.planning.plan import Decisions, Plan, TablePlan, make_plan

__all__ = ["Decisions", "Plan", "TablePlan", "make_plan"]

"""The pipeline of `headwater demo`, to run and to change by hand; see README.md."""

from headwater.demo.app import demo

__all__ = ["demo"]

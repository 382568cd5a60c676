"""The application of `headwater demo`, as one to run with servers of your own; see README.md."""

from headwater.demo.app import demo

__all__ = ["demo"]

"""What cannot be had says why, and what to use."""

from __future__ import annotations

import pytest

import headwater.dstream
from headwater.dstream.stream import DStream
from headwater.dstream.unsupported import REPLACEMENTS, Explains
from headwater.errors import DStreamUnsupported


@pytest.mark.parametrize("name", sorted(REPLACEMENTS))
def test_a_name_that_is_not_supported_gives_its_replacement(name: str) -> None:
    for place in (headwater.dstream, Explains()):
        with pytest.raises(DStreamUnsupported) as raised:
            getattr(place, name)
        assert REPLACEMENTS[name][1] in str(raised.value.remedy)


def test_an_import_of_it_gives_its_replacement_too() -> None:
    with pytest.raises(DStreamUnsupported, match="FlumeUtils"):
        exec("from headwater.dstream import FlumeUtils")


def test_other_names_are_unknown_as_everywhere() -> None:
    assert issubclass(DStream, Explains)
    assert not hasattr(Explains(), "mapp")
    assert not hasattr(headwater.dstream, "Nothing")

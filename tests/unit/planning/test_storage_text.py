"""What a plan says of a storage that is no local folder."""

from pathlib import Path

from headwater.planning.render import storage_text
from headwater.settings import CHECKPOINT_FILES, Settings


def test_the_plan_says_how_checkpoints_stay_whole() -> None:
    renaming = Settings(Path("/project"), storage="hdfs://lake/x")
    assert "renames a file in one step" in storage_text(renaming)
    copying = Settings(
        Path("/project"), storage="s3a://lake/x", spark={CHECKPOINT_FILES: "of.the.Store"}
    )
    assert storage_text(copying) == (
        "storage s3a://lake/x\n"
        "  may copy where it should rename: of.the.Store writes the checkpoints instead"
    )

"""Builds the wheel by maturin, with the command `seekless` in it.

`SEEKLESS_PROFILE` is the profile of cargo, `release` unless it is set: tests use `dev`, which is built already.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import maturin
from maturin import get_requires_for_build_editable, get_requires_for_build_wheel

HERE = Path(__file__).parent
__all__ = ["build_editable", "build_wheel", "get_requires_for_build_editable", "get_requires_for_build_wheel"]


def prepare() -> None:
    """Builds the command, and says by which profile and features maturin builds the library."""
    profile = os.environ.get("SEEKLESS_PROFILE", "release")
    cargo = ["cargo", "build", "--profile", profile, "--package", "seekless-cli", "--bin", "seekless"]
    subprocess.run(cargo, cwd=HERE, check=True)
    described = subprocess.run(["cargo", "metadata", "--format-version", "1", "--no-deps"], cwd=HERE, check=True,
                               stdout=subprocess.PIPE)
    target = Path(json.loads(described.stdout)["target_directory"])
    scripts = HERE / "seekless.data" / "scripts"
    scripts.mkdir(parents=True, exist_ok=True)
    shutil.copy2(target / ("debug" if profile == "dev" else profile) / "seekless", scripts / "seekless")
    arguments = ["--profile", profile]
    if sys.version_info < (3, 11):
        arguments += ["--no-default-features"]
    os.environ.setdefault("MATURIN_PEP517_ARGS", " ".join(arguments))


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    prepare()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    prepare()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)

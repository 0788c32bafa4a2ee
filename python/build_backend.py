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
__all__ = ["build_editable", "build_wheel", "get_requires_for_build_editable", "get_requires_for_build_wheel",
           "prepare_metadata_for_build_editable", "prepare_metadata_for_build_wheel"]


def profile() -> str:
    """Says by which profile and features maturin builds the library."""
    name = os.environ.get("SEEKLESS_PROFILE", "release")
    arguments = ["--profile", name]
    if sys.version_info < (3, 11):
        arguments += ["--no-default-features"]
    os.environ.setdefault("MATURIN_PEP517_ARGS", " ".join(arguments))
    return name


def prepare() -> None:
    """Builds the command, and puts it where maturin looks for scripts."""
    name = profile()
    cargo = ["cargo", "build", "--profile", name, "--package", "seekless-cli", "--bin", "seekless"]
    subprocess.run(cargo, cwd=HERE, check=True)
    described = subprocess.run(["cargo", "metadata", "--format-version", "1", "--no-deps"], cwd=HERE, check=True,
                               stdout=subprocess.PIPE)
    target = Path(json.loads(described.stdout)["target_directory"])
    scripts = HERE / "seekless.data" / "scripts"
    scripts.mkdir(parents=True, exist_ok=True)
    shutil.copy2(target / ("debug" if name == "dev" else name) / "seekless", scripts / "seekless")


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Any = None) -> str:
    # Without it, pip builds the whole wheel to read its metadata, and then once more.
    profile()
    return maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: Any = None) -> str:
    profile()
    return maturin.prepare_metadata_for_build_editable(metadata_directory, config_settings)


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    prepare()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    prepare()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)

"""Builds the wheel by maturin, with the command `seekless` in it.

`SEEKLESS_CARGO_PROFILE` is the profile of cargo, `release` unless it is set. `SEEKLESS_COMMAND` is a command that was built already,
as tests have it.
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
SCRIPTS = HERE / "seekless.data" / "scripts"


def prepare() -> str:
    """Says by which profile and features maturin builds the library, and makes the directory where it looks for scripts."""
    profile = os.environ.get("SEEKLESS_CARGO_PROFILE", "release")
    arguments = ["--profile", profile]
    if sys.version_info < (3, 11):
        arguments += ["--no-default-features"]
    os.environ.setdefault("MATURIN_PEP517_ARGS", " ".join(arguments))
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    return profile


def add_command() -> None:
    """Puts the command into that directory."""
    profile = prepare()
    command = os.environ.get("SEEKLESS_COMMAND") or build_command(profile)
    shutil.copy2(command, SCRIPTS / "seekless")


def build_command(profile: str) -> Path:
    """Builds the command and returns its path."""
    cargo = ["cargo", "build", "--profile", profile, "--package", "seekless-cli", "--bin", "seekless",
             "--features", "catalogue"]
    subprocess.run(cargo, cwd=HERE, check=True)
    described = subprocess.run(["cargo", "metadata", "--format-version", "1", "--no-deps"], cwd=HERE, check=True,
                               stdout=subprocess.PIPE)
    target = Path(json.loads(described.stdout)["target_directory"])
    return target / ("debug" if profile == "dev" else profile) / "seekless"


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Any = None) -> str:
    # Without it, pip builds the whole wheel to read its metadata, and then once more.
    prepare()
    return maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: Any = None) -> str:
    prepare()
    return maturin.prepare_metadata_for_build_editable(metadata_directory, config_settings)


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    add_command()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    add_command()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)

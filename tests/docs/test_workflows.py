"""The workflow files: what they run can be run anywhere, because it is a target of the Makefile."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
PREPARATIONS = ("sudo apt-get update",)
"""Commands that are no targets: packages of the system."""


def jobs(text):
    """Jobs by name."""
    return yaml.safe_load(text)["jobs"]


def problems(text):
    """What is wrong with a workflow."""
    content, found = yaml.safe_load(text), []
    if not {"name", "jobs", True, "permissions"} <= set(content):  # YAML reads `on` as true
        found.append("name, on, permissions or jobs is missing")
    for name, job in content.get("jobs", {}).items():
        gone = [one for one in job.get("needs", []) if one not in content["jobs"]]
        found += [f"{name} needs {one}, which is not there" for one in gone]
        matrix = job.get("strategy", {}).get("matrix", {})
        for step in job["steps"]:
            if ("run" in step) == ("uses" in step):
                found.append(f"{name}: a step has either run or uses")
            if "uses" in step and not re.fullmatch(r"[\w.-]+/[\w./-]+@[\w./]+", step["uses"]):
                found.append(f"{name}: {step['uses']} has no version")
            used = re.findall(r"matrix\.(\w+)", str(step) + str(job.get("runs-on")))
            found += [f"{name}: matrix.{one} is not there" for one in used if one not in matrix]
            found += [f"{name}: {one}" for one in wrong_command(step.get("run", ""), matrix)]
    return found


def wrong_command(command, matrix):
    """The targets of a command that the Makefile does not have; commands of other kinds."""
    if not command or command.startswith(PREPARATIONS):
        return []
    if not command.startswith("make "):
        return [f"{command} is no target"]
    target = command.split()[1]
    own = matrix["target"] if target.startswith("${{") else [target]
    spelled = command.replace("${{ matrix.target }}", "")
    if target.startswith("${{") and "${{" in spelled:
        return [f"{command} cannot be read"]
    return [f"the Makefile has no target {one}" for one in own if one not in TARGETS]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_targets(path):
    assert problems(path.read_text("utf-8")) == []


def test_what_is_wrong_is_found():
    text = """
name: one
on: push
permissions: {}
jobs:
  build:
    needs: [nothing]
    runs-on: ${{ matrix.os }}
    steps:
      - uses: actions/checkout
      - run: pytest
      - run: make nothing
      - name: empty
"""
    assert problems(text) == [
        "build needs nothing, which is not there",
        "build: actions/checkout has no version",
        "build: matrix.os is not there",
        "build: matrix.os is not there",
        "build: pytest is no target",
        "build: matrix.os is not there",
        "build: the Makefile has no target nothing",
        "build: a step has either run or uses",
        "build: matrix.os is not there",
    ]


def test_what_the_release_needs_is_there():
    (release,) = [path for path in WORKFLOWS if path.stem == "release"]
    publish = jobs(release.read_text("utf-8"))["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"] == "release"
    systems = jobs((release.parent / "tests.yml").read_text("utf-8"))["test"]["strategy"]["matrix"]
    assert {one.split("-")[0] for one in systems["os"]} == {"ubuntu", "macos", "windows"}
    assert systems["python"] == ["3.11", "3.12", "3.13", "3.14"]

"""Program that runs one call of a tool of Python. It is passed as text, and imports none of the server's modules."""

import asyncio
import inspect
import json
import linecache
import os
import sys
import traceback
import typing

FILE = "<tool>"


class State(dict):  # type: ignore[type-arg] # of any keys
    """A JSON object whose keys are attributes, too."""

    def __getattr__(self, name: str) -> typing.Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def get_block(self, label: str) -> typing.Any:
        """Return the memory block of that label. Raises KeyError."""
        for block in self["blocks"]:
            if block["label"] == label:
                return block
        raise KeyError(f"there is no memory block {label!r}")

    def list_block_labels(self) -> list[str]:
        """Return the labels of the memory blocks."""
        return [block["label"] for block in self["blocks"]]


def run_call(text: str, marker: str) -> None:
    """Run the call, and print its result as JSON behind the marker.

    The marker is a new random text in each run, so nothing that the function prints or returns has it by chance, or
    by a text that someone wrote before the run.
    """
    output, linecache.cache = sys.stdout, {}  # the cache has this program with its job
    job = json.loads(text)
    most = job["most"]
    try:
        found = called(job)
        result, is_error = text_of(found), False
    except BaseException as problem:  # noqa: BLE001 # also an exit, or an interrupt
        show(problem)
        result, is_error = f"{type(problem).__name__}: {problem}", True
    report = {"text": result[:most], "length": len(result), "error": is_error}
    sys.stderr.flush()
    output.write(f"\n{marker}{json.dumps(report)}\n")
    output.flush()


def called(job: dict[str, typing.Any]) -> typing.Any:
    """Return the value that the function returns."""
    os.environ.update(job["environment"])  # noqa: TID251 # of the jail
    linecache.cache[FILE] = len(job["source"]), None, job["source"].splitlines(keepends=True), FILE
    names = {"__name__": "tool", "AgentState": State}
    names.update({name: getattr(typing, name) for name in typing.__all__})
    exec(compile(job["source"], FILE, "exec", dont_inherit=True), names)  # noqa: S102 # the purpose of the jail
    arguments = job["arguments"]
    if job["state"] is not None:
        arguments["agent_state"] = json.loads(json.dumps(job["state"]), object_hook=State)
    found = names[job["name"]](**arguments)  # type: ignore[operator] # a function
    return asyncio.run(found) if inspect.iscoroutine(found) else found


def text_of(found: typing.Any) -> str:
    """Return a value as a model reads it."""
    if isinstance(found, str):
        return found
    return json.dumps(found, default=str, ensure_ascii=False) if isinstance(found, dict | list) else str(found)


def show(problem: BaseException) -> None:
    """Print the traceback without the frames of this program."""
    trace = problem.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != FILE:
        trace = trace.tb_next
    traceback.print_exception(type(problem), problem, trace)

"""Runs commands in this process, with streams of their own: starting Python costs most.

What a start is worth testing for (faults, interrupts, start-up itself) starts a process as users do.
"""

import contextlib
import io
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np

from ellipsum.apps import cli

seed = 0  # of the noise: each test has its own
_one_at_a_time = threading.Lock()


class Stream(io.TextIOWrapper):
    """A text stream that keeps what is written to it."""

    def __init__(self, text=""):
        super().__init__(io.BytesIO(text.encode()), encoding="utf-8", write_through=True)

    @property
    def text(self):
        return self.buffer.getvalue().decode()


def run(*words, cwd=None, input=None):
    """The command `ellipsum ...`: what subprocess.run gives with captured text."""
    out, err = Stream(), Stream()
    with (
        _one_at_a_time,
        contextlib.chdir(cwd or Path.cwd()),
        mock.patch.object(os, "urandom", np.random.default_rng(seed).bytes),
        mock.patch.multiple(
            sys, argv=["ellipsum", *map(str, words)], stdin=Stream(input or ""), stdout=out, stderr=err
        ),
    ):
        code = cli.run()
    return SimpleNamespace(returncode=code, stdout=out.text, stderr=err.text, args=words)

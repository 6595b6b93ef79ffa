"""A worker that sends every message back; some make it misbehave."""

import os
import sys
import time

from ellipsum.util.worker_process import take_pipe


def serve():
    caller = take_pipe()
    while (message := caller.receive()) is not None:
        if message == b"die":
            os._exit(3)
        if message == b"sleep":
            time.sleep(1000)
        if message == b"talk":
            print("standard output is no message")
            message = repr(sys.stdin.read()).encode()
        caller.send(message)

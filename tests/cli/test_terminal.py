#!/usr/bin/env python3
"""Training on a terminal: test_terminal.py FATHOM

A bar that one line has room for, whatever the terminal's width, gone where lines are printed, and Ctrl-C.
"""
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

CONFIG = """
data: {format: csv, train: train.csv, label: y}
features: {numeric: [{columns: [x]}]}
model: {name: lr}
train: {batch_size: 16, epochs: %d}
checkpoint: {dir: run, every_steps: %d}
"""
BAR = re.compile(r"(?:\[(?P<bar>=*>? *)\])? +(?P<percent>\d+)%  step (?P<step>\d+)  loss (?P<loss>\d\.\d+).*")


def train(program, columns, epochs, every, interrupt=False):
    """Returns the exit code and what the terminal was sent; with interrupt Ctrl-C once a bar is there."""
    with tempfile.TemporaryDirectory(prefix="fathom-test-") as folder:
        with open(os.path.join(folder, "train.csv"), "w") as data:
            data.write("y,x\n" + "".join(f"{i % 2},{i % 2 + i % 5}\n" for i in range(2000)))
        with open(os.path.join(folder, "lr.yaml"), "w") as config:
            config.write(CONFIG % (epochs, every))
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        child = subprocess.Popen([program, "train", "lr.yaml", "--threads", "1"], cwd=folder, stdin=theirs, stdout=theirs,
                                 stderr=theirs, preexec_fn=take_terminal)
        os.close(theirs)
        text = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError: # the terminal's other end is closed
                break
            if not piece:
                break
            text += piece
            if interrupt and re.search(rb"step [1-9]", text):
                os.write(ours, b"\x03")
                interrupt = False
        os.close(ours)
        return child.wait(timeout=60), text.decode()


def take_terminal():
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def bars(text):
    return [match for match in map(BAR.fullmatch, re.findall(r"\r([^\r\n]*?)\x1b\[K", text)) if match]


def expect(truth, what, text):
    if not truth:
        sys.exit(f"{what}:\n{text!r}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program = os.path.abspath(sys.argv[1])
    for columns in 200, 80, 40, 5:
        code, text = train(program, columns, 40, 4000)
        drawn = re.findall(r"\r([^\r\n]*?)\x1b\[K", text)
        expect(code == 0, f"{columns} columns: exit code {code}", text)
        expect(len([bar for bar in drawn if bar]) >= 1, f"{columns} columns: no bar", text)
        expect(all(len(bar) < columns for bar in drawn), f"{columns} columns: a bar that is too long", text)
        if columns >= 80:
            steps = [int(bar["step"]) for bar in bars(text)]
            expect(steps and steps == sorted(steps) and steps[-1] <= 5000, f"{columns} columns: steps", text)
            expect(all(len(bar["bar"]) == 30 for bar in bars(text) if columns == 200), "a bar of 30 columns", text)
        expect(re.search(r"\r\x1b\[Ksaved \S*step-000000004000\r\n", text), f"{columns} columns: a saved line", text)
    code, text = train(program, 80, 1000000, 1000000, interrupt=True)
    expect(code == 130, f"Ctrl-C: exit code {code}", text)
    expect(re.search(r"step-\d{12}", text), "Ctrl-C: no checkpoint", text)


if __name__ == "__main__":
    main()

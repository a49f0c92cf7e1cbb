#!/usr/bin/env python3
"""Kills, stops and starves `fathom train`, and checks that nothing saved is damaged and nothing is lost.

  crash.py kill FATHOM      kill -9 at random moments of training, every other one in the middle of saving;
                            every resume works and the run ends in the digest of an undisturbed one
  crash.py signals FATHOM   SIGINT, SIGTERM, SIGHUP: saved, exit code 130, 143, 129, the same digest after --resume;
                            two SIGHUP are one, and none under nohup; two of the others end it at once
  crash.py full FATHOM      a full disk (a small tmpfs, where root may mount one) and a limit on file sizes:
                            an error that names file and last whole checkpoint, which opens; then --resume

ctest runs all three with 6 kills. The long setting:

  FATHOM_CRASH_KILLS=50 ctest --test-dir build -R crash.kill --output-on-failure

FATHOM_CRASH_SEED (a number, printed on failure) repeats the moments as far as the machine allows.
"""

import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LINES, BATCH, EPOCHS = 3000, 100, 2

CONFIG = """
seed: 11
threads: 2
data:
  format: csv
  train: {data}
  label: label
  shuffle: 700
features:
  learn_lines: 1000
  numeric:
    - {{columns: [n1], standardise: running, quantiles: 4}}
    - {{columns: [n2], log1p: true}}
  categorical:
    - {{columns: [c1], min_count: 2}}
    - {{columns: [c2, c3]}}
embedding: {{dim: 8, huge_pages: false}}
model: {{name: wide_deep, hidden: [16], dropout: 0.2, batch_norm: true}}
optimizer:
  dense: {{name: adam, lr: 0.01}}
  sparse: {{name: adagrad, lr: 0.05}}
train: {{batch_size: {batch}, epochs: {epochs}}}
"""


class Failure(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failure(message)


class Workplace:
    """Data, a configuration, and ways to run the program in a temporary folder."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = folder
        self.config = os.path.join(folder, "config.yaml")
        data = os.path.join(folder, "data.csv")
        draw = random.Random(5)
        with open(data, "w") as out:
            out.write("label,n1,n2,c1,c2,c3\n")
            for _ in range(LINES):
                c1, c2 = int(draw.paretovariate(0.7)) % 5000, draw.randrange(300)
                n1 = draw.gauss(0, 1)
                label = int(n1 + (c1 % 3) + (c2 % 2) + draw.gauss(0, 1) > 2)
                out.write(f"{label},{n1:.3f},{draw.randrange(100)},a{c1},b{c2},c{draw.randrange(9)}\n")
        with open(self.config, "w") as out:
            out.write(CONFIG.format(data=data, batch=BATCH, epochs=EPOCHS))

    def command(self, checkpoints, every=1):
        arguments = [self.program, "train"]
        arguments += ["--resume", checkpoints] if newest(checkpoints) else [self.config]
        return arguments + ["--set", f"checkpoint.dir={checkpoints}", "--set", f"checkpoint.every_steps={every}"]

    def start(self, checkpoints, every=1, **options):
        return subprocess.Popen(self.command(checkpoints, every), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, **options)

    def finish(self, checkpoints, every=1):
        done = subprocess.run(self.command(checkpoints, every), capture_output=True, text=True)
        check(done.returncode == 0, f"training failed with code {done.returncode}: {done.stderr[-2000:]}")
        return self.digest(checkpoints)

    def digest(self, checkpoints):
        done = subprocess.run([self.program, "inspect", "--digest", checkpoints], capture_output=True, text=True)
        check(done.returncode == 0, f"{checkpoints} does not open: {done.stderr}")
        return done.stdout.strip()


def folders(checkpoints, pattern):
    if not os.path.isdir(checkpoints):
        return []
    return sorted(name for name in os.listdir(checkpoints) if re.fullmatch(pattern, name))


def newest(checkpoints):
    there = folders(checkpoints, r"step-\d+")
    return os.path.join(checkpoints, there[-1]) if there else None


def being_written(checkpoints):
    return folders(checkpoints, r"\.step-\d+\.tmp")


# ---- kill -9 ----

def kill(work, kills, draw):
    """Every other time the kill waits until a checkpoint is being written, and a random while more."""
    begun = time.monotonic()
    expected = work.finish(os.path.join(work.folder, "undisturbed"))
    whole = time.monotonic() - begun
    run, ended, in_saving = 0, 0, 0
    checkpoints = os.path.join(work.folder, "run-0")
    for number in range(kills):
        process = work.start(checkpoints)
        time.sleep(draw.uniform(0, 0.7 * whole))
        if number % 2:
            deadline = time.monotonic() + 60
            while process.poll() is None and not being_written(checkpoints):
                check(time.monotonic() < deadline, "no checkpoint is being written")
            time.sleep(draw.uniform(0, 0.003))
        process.kill()
        output, errors = process.communicate()
        check(process.returncode in (0, -signal.SIGKILL),
              f"kill {number}: ended by itself with {process.returncode}: {errors[-2000:]}")
        in_saving += bool(being_written(checkpoints))
        if newest(checkpoints):
            work.digest(checkpoints)
        if process.returncode == 0:
            check(work.digest(checkpoints) == expected, f"kill {number}: the run ended in another digest")
            ended += 1
            run += 1
            checkpoints = os.path.join(work.folder, f"run-{run}")
    if newest(checkpoints) or being_written(checkpoints):
        last = os.path.basename(newest(os.path.join(work.folder, "undisturbed")))
        saved_all = newest(checkpoints) == os.path.join(checkpoints, last)
        check(work.finish(checkpoints) == expected, "the resumed run ended in another digest")
        check(not being_written(checkpoints), "a half-written checkpoint was left")
        # Killed in the last save, behind the new checkpoint: nothing is left to save, and the oldest one stays.
        kept = len(folders(checkpoints, r"step-\d+"))
        check(kept == 2 or (saved_all and kept == 3), "not the last two checkpoints were kept")
        ended += 1
    print(f"{kills} kills, {in_saving} of them while saving; {ended} runs ended in digest {expected}")
    check(kills < 20 or in_saving > kills // 8, "hardly any kill fell into saving")


# ---- SIGINT, SIGTERM, SIGHUP ----

def signals(work):
    every = 7
    expected = work.finish(os.path.join(work.folder, "undisturbed"), every)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        checkpoints = os.path.join(work.folder, number.name)
        process = work.start(checkpoints, every)
        while process.poll() is None and not newest(checkpoints):
            time.sleep(0.001)
        process.send_signal(number)
        if number == signal.SIGHUP:
            process.send_signal(number)
        output, errors = process.communicate()
        check(process.returncode == 128 + number,
              f"{number.name}: exit code {process.returncode} instead of {128 + number}: {errors[-2000:]}")
        check("interrupted" in output, f"{number.name}: the result does not say so: {output}")
        step = int(newest(checkpoints)[-12:])
        check(step < LINES // BATCH * EPOCHS, f"{number.name}: it trained to the end")
        check(os.path.basename(newest(checkpoints)) in output, f"{number.name}: {output} names no checkpoint")
        check(work.finish(checkpoints, every) == expected, f"{number.name}: another digest")
        print(f"{number.name} after step {step}: resumed, digest {expected}")
    second_signal(work)
    under_nohup(work)


def endless(work, name, *before):
    """A run that goes on for hours, and its folder of checkpoints, once it has saved."""
    checkpoints = os.path.join(work.folder, name)
    process = subprocess.Popen([*before, *work.command(checkpoints, 10000), "--set", "train.epochs=1000000", "--set",
                                "checkpoint.every_minutes=0.001"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    while process.poll() is None and not newest(checkpoints):
        time.sleep(0.001)
    return process, checkpoints


def second_signal(work):
    """Two at once, as timeout(1) sends them, are one request: saved. Both come while it stands still."""
    process, checkpoints = endless(work, "twice")
    for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
        process.send_signal(number)
    output = process.communicate()[0]
    check(process.returncode in (130, 143) and "interrupted" in output, f"two signals: code {process.returncode}: {output}")
    work.digest(checkpoints)


def under_nohup(work):
    process, checkpoints = endless(work, "nohup", "nohup")
    process.send_signal(signal.SIGHUP)
    for _ in range(3):  # it goes on saving
        there = newest(checkpoints)
        while process.poll() is None and newest(checkpoints) == there:
            time.sleep(0.001)
    check(process.poll() is None, f"under nohup: SIGHUP ended it, code {process.returncode}")
    process.kill()
    process.wait()


# ---- full disks ----

def starved(work, checkpoints, reason, expected, what, **options):
    """Trains until a save fails, looks at what is said and left, goes on without the limit."""
    process = work.start(checkpoints, **options)
    output, errors = process.communicate()
    check(process.returncode == 1, f"{what}: exit code {process.returncode} instead of 1: {errors[-2000:]}")
    last = newest(checkpoints)
    check(last, f"{what}: no checkpoint was written before")
    message = [line for line in errors.splitlines() if reason in line]
    check(message, f"{what}: {errors[-2000:]} does not say '{reason}'")
    check(re.search(r"\.step-\d+\.tmp/\S+: " + reason, message[0]), f"{what}: '{message[0]}' names no file")
    check(last in message[0], f"{what}: '{message[0]}' does not name {last}")
    check(not being_written(checkpoints), f"{what}: a half-written checkpoint takes room")
    work.digest(checkpoints)
    print(f"{what}: {message[0]}")
    return last


def full(work):
    undisturbed = os.path.join(work.folder, "undisturbed")
    expected = work.finish(undisturbed)
    last = newest(undisturbed)
    sizes = [os.path.getsize(os.path.join(last, name)) for name in os.listdir(last)]

    checkpoints = os.path.join(work.folder, "limit")
    limit = max(sizes) * 3 // 4
    starved(work, checkpoints, "File too large", expected, "a limit on file sizes",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY)))
    check(work.finish(checkpoints) == expected, "a limit on file sizes: another digest after resuming")

    disk = os.path.join(work.folder, "disk")
    os.mkdir(disk)
    pages = sum((size + 4095) // 4096 for size in sizes) * 5 // 2  # two are kept beside one being written
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={pages * 4096}", "tmpfs", disk],
                             capture_output=True, text=True)
    if mounted.returncode != 0:
        print(f"a full disk: not tried, no tmpfs can be mounted here ({mounted.stderr.strip()})")
        return
    try:
        checkpoints = os.path.join(disk, "checkpoints")
        starved(work, checkpoints, "No space left on device", expected, "a full disk")
        elsewhere = os.path.join(work.folder, "elsewhere")
        shutil.copytree(checkpoints, elsewhere)
        check(work.finish(elsewhere) == expected, "a full disk: another digest after resuming")
    finally:
        subprocess.run(["umount", disk], check=True)


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("kill", "signals", "full"):
        sys.exit(__doc__)
    seed = int(os.environ.get("FATHOM_CRASH_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
    folder = tempfile.mkdtemp(prefix="fathom-crash-")
    try:
        work = Workplace(os.path.abspath(sys.argv[2]), folder)
        if sys.argv[1] == "kill":
            kill(work, int(os.environ.get("FATHOM_CRASH_KILLS", "6")), random.Random(seed))
        elif sys.argv[1] == "signals":
            signals(work)
        else:
            full(work)
    except Failure as failure:
        print(f"crash.py {sys.argv[1]}: {failure}\n(FATHOM_CRASH_SEED={seed}; left for inspection: {folder})",
              file=sys.stderr)
        return 1
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

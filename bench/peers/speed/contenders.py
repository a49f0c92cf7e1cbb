"""Who is measured. Each has one way to do it: measure(batch) -> {"examples_per_second": ...} after about options.seconds.

Fathom is a process a measurement. A peer is a process a model, kept, that waits for a line on its standard input: its
tables, traces and compiled code take longer to make than to measure. Never two are busy at once."""
import contextlib
import ctypes
import json
import mmap
import os
import re
import subprocess
import sys

import shapes

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.path.dirname(HERE)
# Without what makes fewer multiplications than the plain model has: by a batch's unique ids; by ReLU's zeros, too.
NOT_FACTORISED = ["--without", "factorise_first_layer"]
ALL_PRODUCTS = [*NOT_FACTORISED, "--without", "skip_zeros"]
# Each number as so many bf16: nearly fp32's accuracy, or all of it. Both make all products of the plain model, too. Only AMX
# makes these faster than fp32's (Fathom.amx).
BF16, BF16X3 = ["--set", "precision=bf16"], ["--set", "precision=bf16x3"]
BF16X6 = ["--set", "precision=bf16x6"]


class Failed(Exception):
    pass


def python_of(peer):
    folder = {"pytorch": ".venv", "tensorflow": ".venv-tensorflow", "vowpalwabbit": ".venv-vowpalwabbit"}[peer]
    path = os.path.join(PEERS, folder, "bin", "python")
    return path if os.path.exists(path) else None


def environment(work):
    """Freed memory is kept instead of given back and zeroed again each step, as a preloaded allocator would do; that
    gave PyTorch 5 to 8 %."""
    return os.environ | {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 33),
                         "MALLOC_TOP_PAD_": str(1 << 28), "TORCHINDUCTOR_CACHE_DIR": os.path.join(work, "inductor")}


@contextlib.contextmanager
def held_in_memory(path):
    """The file is read before and kept in the page cache meanwhile, where locking memory is allowed: a disk's speed differs
    from machine to machine, and is none of a program's. Unlocked, a shared host takes idle pages back within a run."""
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 24):
            pass
        size = os.fstat(file.fileno()).st_size
        libc = ctypes.CDLL(None)
        libc.mmap.restype, size_t = ctypes.c_void_p, ctypes.c_size_t
        place = libc.mmap(None, size_t(size), mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), ctypes.c_long(0))
    if size == 0 or place == ctypes.c_void_p(-1).value:
        raise Failed(f"{path} cannot be mapped")
    libc.mlock(ctypes.c_void_p(place), size_t(size))  # refused without the right to: then it was read, at least
    try:
        yield
    finally:
        libc.munmap(ctypes.c_void_p(place), size_t(size))


class Worker:
    """A kept process."""

    def __init__(self, options, peer, script, model):
        self.name, self.seconds = f"{peer} {model}", options.seconds
        self.log = os.path.join(options.work, f"{peer}-{model}.log")
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([python_of(peer), os.path.join(HERE, script), options.work, model],
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                                            env=environment(options.work))
        self.version = self.answer()["ready"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            with open(self.log, encoding="utf-8") as log:
                raise Failed(f"{self.name} ended with {self.process.wait()}; {self.log} ends with\n"
                             + "".join(log.readlines()[-5:]))
        return json.loads(line)

    def measure(self, way, batch, threads=shapes.THREADS):
        request = {"way": way, "batch": batch, "threads": threads, "seconds": self.seconds}
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Fathom:
    """fathom bench, on the lines that the peers hold."""

    def __init__(self, options, model, file=None, configuration=None, held=shapes.HELD):
        self.options, self.model, self.held = options, model, held
        self.config = os.path.join(options.work, f"{model}.yaml" if not file else f"{model}-text.yaml")
        with open(self.config, "w", encoding="utf-8") as out:
            json.dump(configuration or shapes.configuration(model, file), out, indent=1)
        self.amx = bool(re.search(r"instruction set in use.*amx-bf16", self.call("info")))

    def precisions(self):
        """Name -> arguments: fp32, and what pays by AMX."""
        return {"fathom": []} | ({"fathom bf16x3": BF16X3, "fathom bf16": BF16} if self.amx else {})

    def call(self, *arguments):
        done = subprocess.run([self.options.fathom, *arguments], cwd=self.options.work, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            raise Failed(f"fathom {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout[-2000:]}")
        return done.stdout

    def bench(self, batch, *arguments, threads=shapes.THREADS, seconds=0):
        """What fathom bench writes as JSON; at least that many seconds of steps."""
        out = os.path.join(self.options.work, "bench.json")
        self.call("bench", self.config, "--set", f"train.batch_size={batch}", "--threads", str(threads),
                  "--batches", str(self.held), "--seconds", str(max(seconds, self.options.seconds)), "--json", out, *arguments)
        with open(out, encoding="utf-8") as file:
            read = json.load(file)
        if read["generated"]:
            raise Failed(f"fathom bench did not read the data that {self.config} names")
        return read

    def measure(self, batch, *arguments, threads=shapes.THREADS):
        read = self.bench(batch, *arguments, threads=threads)
        rates, peaks = read["examples_per_second"], read["peaks"]
        return {"examples_per_second": rates["median"], "in_all": rates["in_all"],
                "peak": peaks["fma_gflops"], "between": peaks["fma_between_steps_gflops"],
                "cpu": read["cpu"], "isa": read["isa"].split(",")[0],  # of all precisions
                "amx": self.amx}


class Field:
    """The contenders of a model: names in order, and how each is measured."""

    OWN = {"fathom": [], "fathom-unfactorised": NOT_FACTORISED, "fathom-plain": ALL_PRODUCTS, "fathom-bf16x6": BF16X6,
           "fathom-bf16x3": BF16X3}
    NAMES = [*OWN, "pytorch-bags", "pytorch-stacked", "pytorch-compiled", "pytorch-packed", "tensorflow"]
    NOT_FURTHER = ["pytorch-bags", "tensorflow"]  # of shapes.FURTHER there is one way
    SCRIPTS = {"pytorch": "torch_worker.py", "tensorflow": "tf_worker.py"}

    def __init__(self, options, model):
        self.workers, self.ways = {}, {}
        fathom = Fathom(options, model)
        left_out = self.NOT_FURTHER + ["pytorch-compiled"] * (model in shapes.NOT_COMPILED)
        asked = [name for name in options.contenders or self.NAMES
                 if (model in shapes.MODELS or name not in left_out) and (model == "din" or name != "pytorch-packed")]
        for name in asked:
            peer = name.split("-")[0]
            if name.startswith("fathom-bf16") and not fathom.amx:
                options.progress(f"{name} is left out: it needs AMX")
            elif name in self.OWN:
                self.ways[name] = lambda batch, name=name: fathom.measure(batch, *self.OWN[name])
            elif python_of(peer):
                if peer not in self.workers:
                    self.workers[peer] = Worker(options, peer, self.SCRIPTS[peer], model)
                self.ways[name] = self.way_of(self.workers[peer], name)
            elif options.contenders:
                raise Failed(f"{name}: {peer} is not installed; bench/peers/setup {peer} does it")
            else:
                print(f"run: {name} is left out: bench/peers/setup {peer} installs it", file=sys.stderr)

    @staticmethod
    def way_of(worker, name):
        return lambda batch: worker.measure(name.partition("-")[2], batch)

    def versions(self):
        return [worker.version for worker in self.workers.values()]

    def close(self):
        for worker in self.workers.values():
            worker.close()

#!/usr/bin/env python3
"""Compiles every header alone: those of src/ as C11, those of include/ as strict C11 and as C++.

usage: check_headers.py ROOT --cc CC [--cxx CXX] [-I DIR]...

Each gets a generated source that includes it twice, so that a missing guard shows too. Exit codes: 0 all
compile, 1 some do not (the compiler's words are printed), 77 there is no C++ compiler.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

AVX2 = ["-mavx2", "-mfma", "-mbmi", "-mbmi2", "-mf16c", "-mlzcnt", "-mpopcnt"]
AVX512 = AVX2 + ["-mavx512f", "-mavx512cd", "-mavx512bw", "-mavx512dq", "-mavx512vl"]
WARN = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-fsyntax-only"]
VECTORS = {"avx2": AVX2, "avx512": AVX512}


def headers(top):
    for directory, folders, files in os.walk(top):
        folders.sort()
        for name in sorted(files):
            if name.endswith(".h"):
                yield os.path.relpath(os.path.join(directory, name), top)


def jobs_of(name):
    """(flags, headers before it) for each way in which an internal header is used. Kernels written for any
    vector width (*_simd.h) are included after the vectors that they are written with."""
    base = os.path.basename(name)
    if base == "simd_math.h" or base.endswith("_simd.h"):
        for isa, flags in VECTORS.items():
            before = [f"kernels/cpu/simd_{isa}.h"]
            yield flags, before if base == "simd_math.h" else before + ["kernels/cpu/simd_math.h"]
    else:
        isa = [flags for isa, flags in VECTORS.items() if base.endswith(f"_{isa}.h")]
        yield isa[0] if isa else [], []


def compile_one(job):
    command, suffix, before, name = job
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "alone" + suffix)
        with open(path, "w", encoding="utf-8") as file:
            for include in before + [name, name]:
                file.write(f'#include "{include}"\n')
        result = subprocess.run(command + [path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                universal_newlines=True)
    how = f"{suffix[1:]}, after {' '.join(before)}" if before else suffix[1:]
    return None if result.returncode == 0 else f"{name} does not compile alone ({how}):\n{result.stdout}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--cc", required=True)
    parser.add_argument("--cxx", default="")
    parser.add_argument("-I", action="append", default=[], dest="directories")
    options = parser.parse_args()
    include = os.path.join(options.root, "include")
    src = os.path.join(options.root, "src")
    system = [part for directory in options.directories for part in ("-isystem", directory)]
    internal = [options.cc, "-std=gnu11", "-D_GNU_SOURCE", "-DFTH_BUILDING", "-I" + include, "-I" + src]
    work = []
    for name in headers(src):
        for flags, before in jobs_of(name):
            work.append((internal + system + WARN + flags, ".c", before, name))
    for name in headers(include):
        work.append(([options.cc, "-std=c11", "-pedantic", "-I" + include] + WARN, ".c", [], name))
        if options.cxx:
            work.append(([options.cxx, "-std=c++11", "-pedantic", "-I" + include] + WARN, ".cc", [],
                         name))
    if not work:
        print(f"{options.root}: no headers found; the repository's path would be right")
        return 1
    with ThreadPoolExecutor(2) as pool:
        wrong = [text for text in pool.map(compile_one, work) if text]
    for text in wrong:
        print(text)
    if wrong:
        return 1
    print(f"{len(work)} compilations of single headers succeeded")
    if not options.cxx:
        print("skipped: no C++ compiler for the public headers")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The checks of this suite against small trees with and without what they look for."""
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
CC = os.environ.get("CC", "cc")


def run(script, *arguments):
    result = subprocess.run([sys.executable, os.path.join(HERE, script), *arguments],
                            stdout=subprocess.PIPE, universal_newlines=True)
    return result.returncode, result.stdout


class Tree(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.root = self.directory.name

    def write(self, name, text=""):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


class Layers(Tree):
    def setUp(self):
        super().setUp()
        for folder in ("base core config io kernels comm data feature store metric graph optim "
                       "embedding ops lookahead passes runtime model checkpoint train cli").split():
            self.write(f"src/{folder}/{folder}.h")
            self.write(f"src/{folder}/{folder}_private.h")
        self.write("include/fathom/fathom.h")

    def violations(self):
        code, output = run("../../tools/check_layers.py", self.root)
        lines = output.splitlines()
        self.assertEqual(code, 0 if "include only what they may" in lines[-1] else 1)
        return [] if code == 0 else lines

    def includes(self, folder, name, bracket='"'):
        end = ">" if bracket == "<" else '"'
        self.write(f"src/{folder}/x.c", f"/* x */\n\n# include {bracket}{name}{end} // why\n")
        found = self.violations()
        os.remove(os.path.join(self.root, f"src/{folder}/x.c"))
        for line in found:
            self.assertTrue(line.startswith(f"src/{folder}/x.c:3: "), line)
        return found

    def test_downwards_is_allowed(self):
        for folder, name in (("core", "base"), ("kernels", "core"), ("data", "io"), ("feature", "config"),
                             ("graph", "core"), ("embedding", "kernels"), ("ops", "kernels"),
                             ("ops", "embedding"), ("model", "ops"), ("runtime", "kernels"),
                             ("checkpoint", "runtime"), ("train", "checkpoint"), ("train", "data"),
                             ("data", "kernels"), ("embedding", "graph"), ("embedding", "optim")):
            self.assertEqual(self.includes(folder, f"{name}/{name}.h"), [], (folder, name))
        self.assertEqual(self.includes("data", "data/data_private.h"), [])
        self.assertEqual(self.includes("cli", "fathom/fathom.h"), [])
        self.assertEqual(self.includes("base", "fathom/fathom.h"), [])
        self.assertEqual(self.includes("comm", "stdio.h", "<"), [])

    def test_upwards_beside_and_narrower_are_not(self):
        for folder, name in (("base", "core"), ("core", "config"), ("kernels", "config"),
                             ("kernels", "io"), ("data", "feature"), ("feature", "data"),
                             ("metric", "graph"), ("metric", "kernels"), ("graph", "kernels"), ("graph", "store"),
                             ("graph", "comm"), ("graph", "embedding"), ("optim", "ops"),
                             ("model", "kernels"), ("model", "embedding"), ("model", "runtime"),
                             ("runtime", "embedding"), ("runtime", "store"), ("runtime", "model"),
                             ("checkpoint", "train"), ("train", "cli"), ("cli", "base")):
            found = self.includes(folder, f"{name}/{name}.h")
            self.assertEqual(len(found), 1, (folder, name))
            self.assertIn(f"{folder} must not include {name}", found[0])

    def test_other_rules(self):
        self.assertIn("belongs to folder base alone", self.includes("core", "base/base_private.h")[0])
        self.assertIn("neither in src/ nor", self.includes("core", "core.h")[0])
        self.assertIn("neither in src/ nor", self.includes("core", "../base/base.h")[0])
        self.assertIn("neither in src/ nor", self.includes("core", "fathom/none.h")[0])
        self.assertIn("comm/mpi.c only", self.includes("train", "mpi.h", "<")[0])
        self.assertIn('included as "fathom/', self.includes("train", "fathom/fathom.h", "<")[0])
        self.write("src/comm/mpi.c", "#include <mpi.h>\n")
        self.assertEqual(self.violations(), [])
        self.write("src/kernels/cpu/deep.c", '#include "io/io.h"\n')
        self.assertIn("kernels must not include io", self.violations()[0])

    def test_unknown_folders_and_public_headers(self):
        self.write("src/misc/misc.h")
        self.write("src/loose.c")
        self.write("include/fathom/bad.h", '#include "base/base.h"\n')
        found = "\n".join(self.violations())
        self.assertIn("src/misc/misc.h:1:", found)
        self.assertIn("src/loose.c:1:", found)
        self.assertIn('include/fathom/bad.h:1: a public header sees "fathom/..." only', found)

    def test_a_wrong_path_is_refused(self):
        code, output = run("../../tools/check_layers.py", os.path.join(self.root, "src"))
        self.assertEqual(code, 1)
        self.assertIn("no sources found", output)


class Headers(Tree):
    GOOD = "#ifndef G\n#define G\n#include <stdint.h>\nstruct g { uint32_t n; };\n#endif\n"

    def check(self, *arguments):
        return run("check_headers.py", self.root, "--cc", CC, *arguments)

    def test_good_headers_compile(self):
        self.write("include/fathom/good.h", self.GOOD)
        self.write("src/a/good.h", '#include "fathom/good.h"\n')
        code, output = self.check("--cxx", CC)
        self.assertEqual((code, "3 compilations" in output), (0, True), output)
        code, output = self.check()
        self.assertEqual((code, "skipped" in output), (77, True), output)

    def test_bad_headers_do_not(self):
        for name, text in (("src/a/incomplete.h", "uint32_t f(void);\n"),
                           ("src/a/unguarded.h", "struct s { int n; };\n"),
                           ("src/a/gone.h", '#include "a/none.h"\n'),
                           ("include/fathom/inside.h", '#include "a/good.h"\n'),
                           ("include/fathom/gnu.h", "struct e { };\n")):
            self.write("src/a/good.h", self.GOOD)
            self.write(name, text)
            code, output = self.check()
            os.remove(os.path.join(self.root, name))
            self.assertEqual(code, 1, name)
            self.assertIn(os.path.basename(name) + " does not compile alone", output)

    def test_public_headers_are_cxx_too(self):
        self.write("include/fathom/c_only.h", "#ifndef G\n#define G\nstruct s { int class; };\n#endif\n")
        self.assertEqual(self.check()[0], 77)
        code, output = self.check("--cxx", CC)
        self.assertEqual((code, "alone (cc)" in output), (1, True), output)


class Paths(Tree):
    def test_private_paths_are_found(self):
        for text in ("see /" + "work/x\n", '"/' + 'root/.cache"\n', "=/" + "home/ann/data\n"):
            self.write("docs/a.md", "line\n" + text)
            code, output = run("check_paths.py", self.root)
            self.assertEqual(code, 1, text)
            self.assertTrue(output.startswith("docs/a.md:2: "), output)

    def test_other_paths_are_not(self):
        self.write("a.md", "net/work/x ../work/y /usr/lib ~/work/ https://e.org/work /proc/1/root/ root/\n")
        self.write("build-x/log", "/" + "work/\n")
        self.assertEqual(run("check_paths.py", self.root)[0], 0)


class Keys(Tree):
    def test_keys_that_do_not_exist_are_found(self):
        self.write("docs/configuration.md", "## The file\n| `seed` | x |\n## data.csv\n| `header` | x |\n")
        self.write("src/a.c", '/* data.none */\nf("%s: data.csv.header says so, data.x.csv not");\n')
        self.assertEqual(run("check_keys.py", self.root)[0], 0)
        self.write("src/b.c", '\nf("data.header says so");\n')
        code, output = run("check_keys.py", self.root)
        self.assertEqual((code, output), (1, "src/b.c:2: data.header\n"))
        os.remove(os.path.join(self.root, "src/a.c"))
        os.remove(os.path.join(self.root, "src/b.c"))
        self.assertEqual(run("check_keys.py", self.root)[0], 1)


if __name__ == "__main__":
    unittest.main()

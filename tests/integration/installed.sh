#!/bin/sh
# What a user of the library does: installs it, compiles examples/api.c by pkg-config, and runs it. Its predictions are
# those of the program.   installed.sh SOURCE BUILD
set -eu
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/usr" >/dev/null
PKG_CONFIG_PATH=$(dirname "$(find "$work/usr" -name fathom.pc)")
export PKG_CONFIG_PATH
LD_LIBRARY_PATH=$(pkg-config --variable=libdir fathom)
export LD_LIBRARY_PATH
# shellcheck disable=SC2046 # several words
cc -Wall -Werror "$source/examples/api.c" -o "$work/api" $(pkg-config --cflags --libs fathom)
# The same without the shared library, which hides what it needs.
mkdir "$work/static"
cp "$LD_LIBRARY_PATH/libfathom.a" "$work/static"
# shellcheck disable=SC2046
cc "$source/examples/api.c" -o "$work/static/api" $(pkg-config --cflags fathom) -L"$work/static" \
    $(pkg-config --static --libs fathom | sed "s|-L$LD_LIBRARY_PATH||")
# Folders as whole paths, as some distributions give them: they stand in fathom.pc as they are.
cmake -S "$source" -B "$work/whole" -DFATHOM_TESTS=OFF -DCMAKE_INSTALL_PREFIX=/some/where \
    -DCMAKE_INSTALL_LIBDIR=/other/lib >/dev/null
PKG_CONFIG_PATH="$work/whole" pkg-config --cflags --libs fathom >"$work/flags"
grep -q -- '-I/some/where/include -L/other/lib -lfathom' "$work/flags"
cd "$work"
usr/bin/fathom gen -n 2000 --cap 100 -o train.tsv >/dev/null 2>&1
usr/bin/fathom gen -n 300 --first 2000 --cap 100 -o new.tsv >/dev/null 2>&1
cat >model.yaml <<'END'
data: {format: criteo, train: train.tsv, holdout: {by: hash, fraction: 0.1}}
features: {categorical: [{columns: C1..C6}]}
model: {name: lr}
train: {batch_size: 64}
checkpoint: {dir: other}
END
./api model.yaml checkpoint.dir=model <new.tsv >own.txt 2>told.txt
grep -q 'AUC 0\.' told.txt
[ "$(wc -l <own.txt)" -eq 300 ]
usr/bin/fathom predict model new.tsv | cmp - own.txt
env -u LD_LIBRARY_PATH static/api model.yaml checkpoint.dir=again <new.tsv 2>told.txt | cmp - own.txt
if ./api model.yaml model.name=lrr <new.tsv >/dev/null 2>told.txt; then exit 1; fi
grep -q 'model.name: found lrr' told.txt

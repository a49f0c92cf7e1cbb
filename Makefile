# What a user calls; CMake does the work.
.DEFAULT_GOAL := build
.PHONY: build test demo install deps clean

build: deps
	cmake --preset release -DFATHOM_TESTS=OFF >/dev/null
	cmake --build build

deps:
	@tools/install-deps

test: deps
	cmake --preset release -DFATHOM_TESTS=ON >/dev/null
	cmake --build build
	ctest --test-dir build --output-on-failure -j2

demo: build
	tools/demo

# PREFIX=/opt/fathom, DESTDIR=/tmp/package
install: build
	cmake --install build $(if $(PREFIX),--prefix "$(PREFIX)")

clean:
	rm -rf build build-asan build-tsan build-fuzz demo

# What a user calls; CMake does the work.
.DEFAULT_GOAL := build
.PHONY: build test demo deps clean

build: deps
	cmake --preset release >/dev/null
	cmake --build build

deps:
	@tools/install-deps

test: build
	ctest --test-dir build --output-on-failure -j2

demo: build
	tools/demo

clean:
	rm -rf build build-asan build-tsan demo
